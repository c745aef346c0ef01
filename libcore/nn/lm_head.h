// The output layer with the loss: logits = x table^T, cross-entropy against the labels, and in training at once the
// gradients. Rows go in chunks of a fixed number of bytes, so that the logits of a whole micro-batch, the largest
// tensor of a small GPT, never exist. The vocabulary is split over the tensor-parallel ranks, which combine three
// numbers a row before the gradient; a rank that holds all of it computes losses and gradient in one pass over the
// logits. The table may be the embedding's.
#pragma once

#include "nn/batch.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct LmHead {
  std::int64_t vocab = 0;  // true size: columns beyond it are padding and never take part
  TpRegion region;
  Param table;  // (padded vocabulary / tp, C); where it is the embedding's, bound by the chunk

  /// losses (N) of every token, N = B T. x (n, C): the rows outside the region that this rank holds.
  void loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const;
  /// The same, and dx (n, C) of sum(losses * batch.loss_weights); adds to the table's gradient.
  void loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
  /// logits (N, V) of the true vocabulary, by a rank that holds all of it.
  void logits(Ctx& ctx, Tensor out, Tensor x) const;

 private:
  std::int64_t chunk_rows(const Ctx& ctx, std::int64_t rows) const;
  void cross_entropy(Ctx& ctx, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels, Tensor weights) const;
  void chunk(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const;
  void all_chunks(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
