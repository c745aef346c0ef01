// The output layer with the loss: logits = x table^T, cross-entropy with the labels and, in training, the gradients in
// the same pass. Rows are computed in pieces whose logits take a fixed number of bytes, so that the logits of a whole
// micro-batch, the largest tensor of a small GPT, are never in memory at once. The vocabulary is split over the
// tensor-parallel ranks, which combine three numbers per row before the gradient; a rank that holds all of it computes
// losses and gradient in one pass over the logits. The table may be the token embedding.
#pragma once

#include "nn/batch.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct LmHead {
  std::int64_t vocab = 0;  // true size: columns beyond it are padding, excluded from the softmax
  TpRegion region;
  Param table;  // (padded vocabulary / tp, C); if tied, the chunk binds it to the token embedding

  /// Writes the losses (N) of all N = B T tokens. x (n, C) is this rank's rows outside the region.
  void loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const;
  /// Also writes dx (n, C), the gradient of loss scale * sum(losses * batch.loss_weights), and the table's.
  void loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
  /// Writes logits (N, V) over the true vocabulary of x (N, C). Requires that this rank holds the whole vocabulary.
  void logits(Ctx& ctx, Tensor out, Tensor x) const;

 private:
  std::int64_t piece_rows(const Ctx& ctx, std::int64_t rows) const;
  void cross_entropy(Ctx& ctx, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels, Tensor weights) const;
  void compute_piece(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const;
  void compute_all_pieces(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
