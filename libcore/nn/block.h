// A transformer block, pre-norm:
//   x = x + dropout(attention(norm1(x)) + bias)
//   x = x + dropout(mlp(norm2(x)) + bias)
// or with a parallel residual (GPT-NeoX), with both branches applied to the same x:
//   x = x + dropout(attention(norm1(x)) + bias) + dropout(mlp(norm2(x)) + bias)
#pragma once

#include "nn/attention_layer.h"
#include "nn/dropout.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace mtl {

struct Block {
  std::int64_t number = 0;  // index of the layer in the whole model
  bool parallel_residual = false;
  TpRegion region;
  NormLayer norm1, norm2;
  AttentionLayer attention;
  Mlp mlp;
  Dropout attention_dropout, mlp_dropout;  // applied to the outputs of the branches

  struct Cache {
    NormLayer::Cache norm1, norm2;
    AttentionLayer::Cache attention;
    Mlp::Cache mlp;
  };

  Block(const GptConfig& config, const DropoutOptions& dropout, TpRegion tp_region, std::int64_t layer,
        bool recomputes_attention = false);
  void params(const ParamVisitor& visit);
  /// x and y are (n, C) and in the slot, where n is the number of rows, out of N = B T, that this rank holds outside
  /// the tensor-parallel region.
  void forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const;
  /// Turns dx, the gradient of y, into the gradient of x, in place.
  void backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const;
};

}  // namespace mtl
