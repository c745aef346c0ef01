// Token and position tables at the bottom of the model. The tokens' is split by rows over the tensor-parallel ranks:
// each looks up what it has, and the sum over them leaves the region. With tied embeddings the output layer (LmHead)
// shares the table. Rotary positions act in attention: then there is no table of positions.
#pragma once

#include "kernels/embedding.h"
#include "nn/batch.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

/// The token table. Where it is tied, the first chunk and the last describe it alike.
ParamSpec token_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

/// The output layer's own table, of a model that does not tie it.
ParamSpec output_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

struct EmbeddingLayer {
  ParamSpec token_spec;
  std::int64_t positions = 0, hidden = 0;  // rows of the position table; 0: there is none
  float init_std = 0;
  TpRegion region;
  Dropout dropout;
  Param tokens;          // (padded vocabulary / tp, C)
  Param position_table;  // (P, C), or left out

  struct Cache {};

  EmbeddingLayer() = default;
  EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, TpRegion around,
                 std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);
  /// Writes y (n, C): n of the N = B T rows outside the tensor-parallel region. There is no x.
  void forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const;
  /// dx (n, C), the gradient of y, is used up.
  void backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const;
};

}  // namespace mtl
