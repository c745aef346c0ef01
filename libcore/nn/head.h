// The model's head: the final norm, the output layer and the loss.
#pragma once

#include <optional>

#include "nn/lm_head.h"
#include "nn/model_build.h"
#include "nn/norm.h"

namespace mtl {

struct Head {
  NormLayer norm;
  LmHead output;
  std::optional<ParamSpec> table;  // for the output layer; empty if it shares this chunk's token embedding

  struct Cache {
    Tensor x;  // (n, C), the input
  };

  Head(const ModelBuild& build, std::optional<ParamSpec> own_table);
  void params(const ParamVisitor& visit);
  bool shares_table() const { return !table; }
  /// In evaluation, writes the losses (B, T) for all tokens in x (n, C). In training, only keeps x: backward() computes
  /// the logits once, for both losses and gradients.
  void forward(Ctx& ctx, Tensor x, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Writes the losses (B, T), and dx (n, C), which may overwrite x, the gradient of loss scale * sum(losses *
  /// batch.loss_weights) with respect to x.
  void backward(Ctx& ctx, Tensor dx, Tensor losses, const Batch& batch, const Cache& cache) const;
  /// Depending on the shape of `out`, writes the logits (B T, V) for all positions in x, or the logits (B, V) for each
  /// sequence's last position.
  void logits(Ctx& ctx, Tensor out, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
