// Flags that choose the model's architecture: the same in mtl-train and in mtl-topo.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

inline constexpr std::int64_t kMostLayers = 1 << 12;

/// Sizes, kinds of layers, and dropout: what decides how much memory a model takes. `is_loaded`: whether the
/// architecture is a loaded model's, with which flags only have to agree.
void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded);

}  // namespace mtl
