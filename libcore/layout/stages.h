// The layers of each pipeline stage.
//
// A stage holds one chunk of consecutive layers, or with interleaving several. Chunks follow one another through the
// stages: chunk 0 of stage 0, of stage 1, ... of the last stage, then chunk 1 of stage 0, and so on. Follows
// Megatron-LM's rules with one exception: with one chunk per stage, the number of layers need not be a multiple of the
// number of stages.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// `count` layers from `first` on; the first layer of the model is 0.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const LayerRange&) const = default;
};

/// [stage][chunk] -> layers; together they cover every layer once. Surplus layers go to the stages from the second on,
/// one each: the first stage has the embedding, and the last of p stages, which has the output layer, gets one only if
/// there are p-1. Throws Error(usage) that names the flags if the layers cannot be split this way.
std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers);

}  // namespace mtl
