// Flags for the model architecture, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "run/options.h"

namespace mtl {

inline constexpr std::int64_t kMostLayers = 1 << 12;

/// Adds --model and flags for sizes, layer types and dropout, with their checks. `is_loaded`, called after parsing,
/// returns true if a loaded model determines the architecture; then the flags must agree with it.
void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded);

}  // namespace mtl
