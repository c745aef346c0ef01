// The layers of each pipeline stage.
//
// A stage holds one chunk of consecutive layers, or with interleaving several. Chunks follow one another through the
// stages: chunk 0 of stage 0, of stage 1, ... of the last stage, then chunk 1 of stage 0, and so on. The rules are
// Megatron-LM's, but for one: layers that do not divide by the stages are allowed when there is one chunk a stage.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// `count` layers from `first` on, counted from 0.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const LayerRange&) const = default;
};

/// [stage][chunk] -> layers; together they cover every layer once. Surplus layers go one each to the stages from the
/// second on: the first has the embedding already, and only p-1 surplus layers bring one to the last, which has the
/// output layer. Throws Error(usage) that names the flags when the layers cannot be split so.
std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers);

}  // namespace mtl
