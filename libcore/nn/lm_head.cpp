#include "nn/lm_head.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

namespace mtl {

namespace {

/// The most rows in a piece on a GPU, for a table (V, C). The product that adds to the table's gradient needs 2 R V C
/// operations, and moves the fp32 gradient twice, 8 V C bytes, and 16-bit dlogits, 2 R V bytes. It is bound by the
/// operations if R > 4 C ridge / (C - ridge). We allow twice as many rows, so that it takes longer than its memory
/// traffic even at half the bandwidth.
std::int64_t most_gpu_rows(std::int64_t vocab, std::int64_t width) {
  constexpr std::int64_t kRidge = 300;  // 16-bit operations in the time of a byte: H100 295, B200 281, A100 153
  constexpr std::int64_t kMost = 4096, kLogitsBytes = std::int64_t{1} << 30, kTile = 128;
  const std::int64_t enough = width > kRidge ? 2 * 4 * width * kRidge / (width - kRidge) : kMost;
  return std::max(kTile, std::min({kMost, enough, kLogitsBytes / (4 * vocab)}) / kTile * kTile);
}

}  // namespace

std::int64_t LmHead::piece_rows(Device device, std::int64_t rows, std::int64_t vocab, std::int64_t width) {
  constexpr std::int64_t kStep = 16;
  if (device == Device::cpu) {
    constexpr std::int64_t kLogitsBytes = std::int64_t{64} << 20;
    return std::min(rows, std::max(kStep, kLogitsBytes / (4 * vocab) / kStep * kStep));
  }
  const std::int64_t most = most_gpu_rows(vocab, width), pieces = std::max<std::int64_t>(1, (rows + most - 1) / most);
  const std::int64_t equal = (rows + pieces - 1) / pieces;
  return std::min(rows, (equal + kStep - 1) / kStep * kStep);
}

/// Writes the losses and, if it exists, dlogits. Overwrites logits.
void LmHead::cross_entropy(Ctx& ctx, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels, Tensor weights,
                           const ZLoss& z_loss) const {
  Communicator& ranks = ctx.groups.over(Axis::tensor);
  if (ranks.size() == 1 && dlogits.exists())  // ranks have nothing to combine in between
    return cross_entropy_forward_backward(ctx.stream, losses, dlogits, logits, labels, weights, vocab, ctx.step,
                                          z_loss);
  const std::int64_t rows = logits.size(0), width = logits.size(1), begin = ranks.rank() * width;
  const VocabSlice slice{begin, std::clamp<std::int64_t>(vocab - begin, 0, width)};
  Tensor stats = ctx.scratch.make(DType::f32, {rows, 3}), parts = ctx.scratch.make(DType::f32, {ranks.size(), rows, 3});
  cross_entropy_stats(ctx.stream, stats, logits, labels, slice);
  ranks.all_gather(ctx.stream, parts, stats).wait(ctx.stream);
  cross_entropy_combine(ctx.stream, stats, parts);
  cross_entropy_loss(ctx.stream, losses, stats);
  if (dlogits.exists())
    cross_entropy_backward(ctx.stream, dlogits, logits, stats, labels, weights, slice, ctx.step, z_loss);
}

/// Computes one piece of the rows. Writes this rank's term of the sum over the vocabulary to dx. If dx is absent,
/// computes only the losses.
void LmHead::compute_piece(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights,
                           const ZLoss& z_loss) const {
  Arena::Mark mark(ctx.scratch);
  Tensor logits = ctx.scratch.make(logits_dtype, {x.size(0), table.value.size(0)}), dlogits;
  const DType compute = table.value.dtype();
  if (dx.exists()) dlogits = compute == logits_dtype ? logits : ctx.scratch.make(compute, logits.shape());
  gemm(ctx.stream, ctx.scratch, logits, {x}, transposed(table.value));
  cross_entropy(ctx, losses, dlogits, logits, labels, weights, z_loss);
  if (!dx.exists()) return;
  // dx = dlogits table, dtable = dlogits^T x
  gemm(ctx.stream, ctx.scratch, dx, {dlogits}, {table.value});
  Grad dtable = table.take_grad();
  gemm(ctx.stream, ctx.scratch, dtable.tensor, transposed(dlogits), {x}, dtable.mode);
}

void LmHead::compute_all_pieces(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  const std::int64_t rows = x.size(0);
  const std::int64_t step = piece_rows(ctx.stream.target(), rows, table.value.size(0), table.value.size(1));
  for (std::int64_t row = 0; row < rows; row += step) {
    std::int64_t count = std::min(step, rows - row);
    const auto piece = [&](Tensor of_tokens) {
      return of_tokens.exists() ? of_tokens.view({rows}).rows(row, count) : of_tokens;
    };
    compute_piece(ctx, piece(losses), dx.exists() ? dx.rows(row, count) : dx, x.rows(row, count), piece(batch.labels),
                  piece(batch.loss_weights), {batch.z_loss.coefficient, piece(batch.z_loss.losses)});
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
