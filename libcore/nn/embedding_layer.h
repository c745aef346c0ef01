// Token and position embeddings. The token embedding is split by rows over the tensor-parallel ranks: each looks up the
// tokens of its rows, and the output is the sum over ranks. With tied embeddings the output layer (LmHead) shares the
// table. A model with rotary positions, which act in attention, has no position embedding.
#pragma once

#include "kernels/embedding.h"
#include "nn/batch.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

/// Returns the spec of the token embedding; with tied embeddings the first and the last chunk both use it.
ParamSpec token_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

/// Returns the spec of the output layer's own weights, in a model without tied embeddings.
ParamSpec output_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

struct EmbeddingLayer {
  ParamSpec token_spec;
  std::int64_t positions = 0, hidden = 0;  // rows of the position embedding, 0 without one; C
  float init_std = 0;
  TpRegion region;
  Dropout dropout;
  Param tokens;          // (padded vocabulary / tp, C)
  Param position_table;  // (P, C); absent with rotary positions

  struct Cache {};

  EmbeddingLayer() = default;
  EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, TpRegion tp_region,
                 std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);
  /// Writes y (n, C): of the N = B T rows, this rank holds n outside the tensor-parallel region. Ignores x.
  void forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const;
  /// Writes the gradients of both tables. Overwrites dx (n, C), the gradient of y.
  void backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const;
};

}  // namespace mtl
