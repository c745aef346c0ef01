// The output layer and the loss: logits = x table^T, cross-entropy with the labels and, in training, the gradients in
// the same pass.
//
// Rows are processed in pieces, because an entire micro-batch's logits would be the largest tensor in a small GPT. The
// vocabulary is split over the tensor-parallel ranks, which exchange three numbers per row before they compute the
// gradient. A rank that holds the entire vocabulary computes losses and gradient in a single pass over the logits. The
// table may be the token embedding.
#pragma once

#include "nn/batch.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct LmHead {
  std::int64_t vocab = 0;           // without padding; the softmax excludes padding columns
  DType logits_dtype = DType::f32;  // f32, or the table's: then their gradient overwrites them
  TpRegion region;
  Param table;  // (padded vocabulary / tp, C); if tied, the chunk binds it to the token embedding

  /// Writes the losses (N) for all N = B T tokens. x (n, C) has the rows that this rank holds outside the region.
  void loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const;
  /// Like loss(), but also writes the batch's z-losses, and dx (n, C), the gradient of loss scale * sum((losses +
  /// z-losses) * batch.loss_weights) with respect to x, and the gradient with respect to the table.
  void loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
  /// Writes the logits (N, V) for x (N, C), without vocabulary padding. This rank must hold the entire vocabulary.
  void logits(Ctx& ctx, Tensor out, Tensor x) const;

  /// Returns how many of the `rows` rows a piece has; the last may have fewer. A rank's table is (vocab, width). On the
  /// CPU, a piece's logits take at most 64 MiB in fp32, as measured; on a GPU at most 1 GiB, for thousands of rows,
  /// because each piece reads and writes the table's gradient. One tile of rows may take more. In bf16, pieces have the
  /// same rows and take half as much.
  static std::int64_t piece_rows(Device device, std::int64_t rows, std::int64_t vocab, std::int64_t width);

 private:
  void cross_entropy(Ctx& ctx, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels, Tensor weights,
                     const ZLoss& z_loss) const;
  void compute_piece(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights,
                     const ZLoss& z_loss) const;
  void compute_all_pieces(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const;
};

}  // namespace mtl
