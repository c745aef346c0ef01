// A pipeline rank's part of the model: a list of chunks (several with an interleaved schedule, one otherwise).
#pragma once

#include <vector>

#include "layout/layout.h"
#include "nn/chunk.h"

namespace mtl {

struct Stage {
  std::vector<Chunk> chunks;

  void params(const ParamVisitor& visit) {
    for (Chunk& chunk : chunks) chunk.params(visit);
  }
};

/// Returns the stage of a process that holds the whole model. `residual` is the dtype of hidden states.
Stage whole_model(const GptConfig& config, const DropoutOptions& dropout, std::int64_t padded_vocab_size,
                  DType residual = DType::f32);
/// Returns the stage of a rank. Throws Error(usage) if the layers cannot be split over the stages.
Stage make_stage(const GptConfig& config, const DropoutOptions& dropout, const Layout& layout,
                 std::int64_t padded_vocab_size, DType residual = DType::f32);

}  // namespace mtl
