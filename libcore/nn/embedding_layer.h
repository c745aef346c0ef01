// Token and position tables at the bottom of the model. The token table is shared with the output layer (LmHead).
#pragma once

#include "kernels/embedding.h"
#include "nn/batch.h"
#include "nn/block.h"

namespace mtl {

struct EmbeddingLayer {
  std::int64_t vocab = 0, padded_vocab = 0, positions = 0, hidden = 0;
  float init_std = 0;
  Dropout dropout;
  Param tokens;          // (padded vocabulary / tp, C)
  Param position_table;  // (P, C)

  EmbeddingLayer() = default;
  EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);
  /// Writes out (B, T, C).
  void forward(Ctx& ctx, Tensor out, const Batch& batch) const;
  void backward(Ctx& ctx, Tensor dout, const Batch& batch) const;
};

}  // namespace mtl
