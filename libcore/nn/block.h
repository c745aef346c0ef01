// A transformer block, pre-norm:
//   x = x + dropout(attention(norm1(x)) + bias)
//   x = x + dropout(mlp(norm2(x)) + bias)
// or with a parallel residual (GPT-NeoX), with both branches applied to the same x:
//   x = x + dropout(attention(norm1(x)) + bias) + dropout(mlp(norm2(x)) + bias)
#pragma once

#include "nn/attention_layer.h"
#include "nn/dropout.h"
#include "nn/mlp.h"
#include "nn/model_build.h"
#include "nn/norm.h"

namespace mtl {

struct Block {
  std::int64_t number = 0;  // layer index in the entire model
  bool parallel_residual = false;
  TpRegion region;
  NormLayer norm1, norm2;
  AttentionLayer attention;
  Mlp mlp;
  Dropout attention_dropout, mlp_dropout;  // applied to the branch outputs

  struct Cache {
    NormLayer::Cache norm1, norm2;
    AttentionLayer::Cache attention;
    Mlp::Cache mlp;
  };

  Block(const ModelBuild& build, std::int64_t layer);
  void params(const ParamVisitor& visit);
  /// x and y are (n, C) and in the slot: this rank holds n of the N = B T rows outside the tensor-parallel region.
  void forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const;
  /// Reads dy, the gradient of y, and writes dx, the gradient of x, which may overwrite x. With `keeps_dy`, dy does not
  /// change until the queued weight gradients are computed. Otherwise, dx may overwrite dy, too.
  void backward(Ctx& ctx, Tensor dx, Tensor dy, bool keeps_dy, const Batch& batch, const Cache& cache) const;
};

}  // namespace mtl
