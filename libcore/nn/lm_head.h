// The output layer with the loss: logits = x table^T, cross-entropy against the labels, and in training at once the
// gradients. Rows go in chunks, so that the logits of a whole micro-batch, the largest tensor of a small GPT, never
// exist. The table is the embedding's.
#pragma once

#include "nn/batch.h"
#include "nn/context.h"
#include "nn/gpt_config.h"

namespace mtl {

struct LmHead {
  std::int64_t vocab = 0;  // true size: columns beyond it are padding and never take part
  Param table;             // (padded vocabulary / tp, C): the embedding's, bound by the chunk

  /// losses (N): of each token. x (N, C).
  void loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const;
  /// The same, and dx (N, C) of sum(losses * batch.loss_weights); adds to the table's gradient.
  void loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
  /// logits (N, V): the true vocabulary only.
  void logits(Ctx& ctx, Tensor out, Tensor x) const;

 private:
  std::int64_t chunk_rows(std::int64_t rows) const;
  void chunk(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const;
  void all_chunks(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
