// Token and position embeddings. Each tensor-parallel rank holds some rows of the token embedding and looks up the
// tokens in them; the output is summed over ranks. With tied embeddings, the output layer (LmHead) shares the table.
// Rotary positions act in attention, so models that use them have no position embedding.
#pragma once

#include "kernels/embedding.h"
#include "nn/batch.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

/// Returns the token embedding's spec. With tied embeddings, the first and the last chunk both use it.
ParamSpec token_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

/// Returns the spec for a separate output layer, in a model without tied embeddings.
ParamSpec output_table_spec(const GptConfig& config, std::int64_t padded_vocab_size);

struct EmbeddingLayer {
  ParamSpec token_spec;
  std::optional<ParamSpec> position_spec;  // absent with rotary positions
  TpRegion region;
  Dropout dropout;
  Param tokens;          // (padded vocabulary / tp, C)
  Param position_table;  // (P, C); absent without position_spec

  struct Cache {};

  EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, TpRegion tp_region,
                 std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);
  /// Writes y (n, C): this rank holds n of the N = B T rows outside the tensor-parallel region. Ignores x.
  void forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const;
  /// Writes the gradients of both tables. Overwrites dy (n, C), the gradient of y.
  void backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const;
};

}  // namespace mtl
