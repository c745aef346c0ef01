#include "nn/lm_head.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

namespace mtl {

namespace {

// Returns the size in bytes of a piece's fp32 logits. A piece with R rows needs 6 R V C operations in GEMMs, and reads
// and writes the table's gradient, 8 V C bytes. R must be large enough to hide this memory traffic. A GPU needs a
// larger R, because it computes more operations in the time it takes to move a byte.
std::int64_t piece_bytes(Device device) { return std::int64_t{device == Device::cuda ? 512 : 64} << 20; }

}  // namespace

std::int64_t LmHead::piece_rows(const Ctx& ctx, std::int64_t rows) const {
  std::int64_t fitting = piece_bytes(ctx.stream.target()) / (4 * table.value.size(0)) / 16 * 16;
  return std::min(rows, std::max<std::int64_t>(16, fitting));
}

/// Writes the losses and, if it exists, dlogits. Overwrites logits.
void LmHead::cross_entropy(Ctx& ctx, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                           Tensor weights) const {
  Communicator& ranks = ctx.groups.over(Axis::tensor);
  if (ranks.size() == 1 && dlogits.exists())  // ranks have nothing to combine in between
    return cross_entropy_forward_backward(ctx.stream, losses, dlogits, logits, labels, weights, vocab, ctx.step);
  const std::int64_t rows = logits.size(0), width = logits.size(1), begin = ranks.rank() * width;
  const VocabSlice slice{begin, std::clamp<std::int64_t>(vocab - begin, 0, width)};
  Tensor stats = ctx.scratch.make(DType::f32, {rows, 3}), parts = ctx.scratch.make(DType::f32, {ranks.size(), rows, 3});
  cross_entropy_stats(ctx.stream, stats, logits, labels, slice);
  ranks.all_gather(ctx.stream, parts, stats).wait(ctx.stream);
  cross_entropy_combine(ctx.stream, stats, parts);
  cross_entropy_loss(ctx.stream, losses, stats);
  if (dlogits.exists()) cross_entropy_backward(ctx.stream, dlogits, logits, stats, labels, weights, slice, ctx.step);
}

/// Computes one piece of the rows. Writes this rank's term of the sum over the vocabulary to dx. If dx is absent,
/// computes only the losses.
void LmHead::compute_piece(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const {
  Arena::Mark mark(ctx.scratch);
  Tensor logits = ctx.scratch.make(DType::f32, {x.size(0), table.value.size(0)}), dlogits;
  const DType compute = table.value.dtype();
  if (dx.exists()) dlogits = compute == DType::f32 ? logits : ctx.scratch.make(compute, logits.shape());
  gemm(ctx.stream, ctx.scratch, logits, {x}, transposed(table.value));
  cross_entropy(ctx, losses, dlogits, logits, labels, weights);
  if (!dx.exists()) return;
  // dx = dlogits table, dtable = dlogits^T x
  gemm(ctx.stream, ctx.scratch, dx, {dlogits}, {table.value});
  Grad dtable = table.take_grad();
  gemm(ctx.stream, ctx.scratch, dtable.tensor, transposed(dlogits), {x}, dtable.mode);
}

void LmHead::compute_all_pieces(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  std::int64_t rows = x.size(0), step = piece_rows(ctx, rows);
  Tensor flat_losses = losses.view({rows}), labels = batch.labels.view({rows});
  for (std::int64_t row = 0; row < rows; row += step) {
    std::int64_t count = std::min(step, rows - row);
    bool training = dx.exists();
    compute_piece(ctx, flat_losses.rows(row, count), training ? dx.rows(row, count) : Tensor(), x.rows(row, count),
                  labels.rows(row, count), training ? batch.loss_weights.view({rows}).rows(row, count) : Tensor());
  }
}

void LmHead::loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const {
  Arena::Mark scratch(ctx.scratch);
  compute_all_pieces(ctx, losses, {}, region.enter(ctx, ctx.scratch, x), batch);
}

void LmHead::loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  Arena::Mark scratch(ctx.scratch);
  Tensor full = region.enter(ctx, ctx.scratch, x), partial = region.partial_of(ctx, dx);
  compute_all_pieces(ctx, losses, partial, full, batch);
  region.leave(ctx, dx, partial);
}

void LmHead::logits(Ctx& ctx, Tensor out, Tensor x) const {
  gemm(ctx.stream, ctx.scratch, out, {x}, transposed(table.value.rows(0, vocab)));
}

}  // namespace mtl
