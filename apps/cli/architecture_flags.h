// Flags for the model's architecture, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

inline constexpr std::int64_t kMostLayers = 1 << 12;

/// Adds --model, sizes, kinds of layers, dropout, and their checks. `is_loaded` is called after parsing; it returns
/// true if a loaded model gives the architecture, with which the flags must agree.
void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded);

}  // namespace mtl
