// Flags for the model's architecture, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

inline constexpr std::int64_t kMostLayers = 1 << 12;

/// Adds --model and flags for sizes, kinds of layers and dropout, with their checks. `is_loaded` is called after
/// parsing and returns true if a loaded model determines the architecture. The flags must then agree with that model.
void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded);

}  // namespace mtl
