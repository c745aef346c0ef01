// The top of the model: the final norm and the output layer with the loss.
#pragma once

#include <optional>

#include "nn/lm_head.h"
#include "nn/norm.h"

namespace mtl {

struct Head {
  NormLayer norm;
  LmHead output;
  std::optional<ParamSpec> table;  // of the output layer; left out when it is the embedding's of the same chunk

  struct Cache {
    Tensor x;  // (n, C) as it entered
  };

  Head(const GptConfig& config, TpRegion around, std::optional<ParamSpec> own_table);
  void params(const ParamVisitor& visit);
  bool shares_table() const { return !table; }
  /// Evaluation: losses (B, T) of every token of x (n, C). Training only remembers x: the logits, which are computed
  /// once, give losses and gradients together in backward.
  void forward(Ctx& ctx, Tensor x, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Writes the losses, and dx (n, C) of sum(losses * batch.loss_weights).
  void backward(Ctx& ctx, Tensor dx, Tensor losses, const Batch& batch, const Cache& cache) const;
  /// Logits (B T, V) of every position of x, or (B, V) of the last of each sequence, as `out` is shaped.
  void logits(Ctx& ctx, Tensor out, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
