// The layers on each pipeline stage.
//
// A stage holds one chunk of consecutive layers or, with an interleaved schedule, multiple chunks. The chunks' order in
// the model is: chunk 0 on stage 0, chunk 0 on stage 1, ..., chunk 0 on the last stage, chunk 1 on stage 0, and so on.
// The distribution follows Megatron-LM's rules with one exception: with one chunk per stage, the number of layers need
// not be a multiple of the number of stages.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// Layers [first, first + count) in the model, counted from 0.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const LayerRange&) const = default;
};

/// Returns every chunk's layers, indexed by [stage][chunk]. Together, the chunks cover every layer once. If the layers
/// cannot be distributed evenly, surplus layers go one each to the second and following stages. The first stage, which
/// has the embedding, gets no surplus layer. The last of p stages, which has the output layer, gets one only if there
/// are p-1 surplus layers. Throws Error(usage), with the flags' names, if the layers cannot be distributed.
std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers);

}  // namespace mtl
