#include "nn/lm_head.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace mtl {

namespace {
// Large enough that the table's gradient, read and written once a chunk, is not what a step waits for.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;
}  // namespace

std::int64_t LmHead::chunk_rows(std::int64_t rows) const {
  std::int64_t fitting = kChunkBytes / (4 * table.value.size(0)) / 16 * 16;
  return std::min(rows, std::max<std::int64_t>(16, fitting));
}

/// One chunk of rows; dx is this rank's term of the sum over the vocabulary. Without dx only the losses.
void LmHead::chunk(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const {
  Arena::Mark mark(ctx.scratch);
  std::int64_t rows = x.size(0), width = table.value.size(0);
  std::int64_t begin = ctx.groups.over(Axis::tensor).rank() * width;
  VocabSlice slice{begin, std::clamp<std::int64_t>(vocab - begin, 0, width)};
  Tensor logits = ctx.scratch.make(DType::f32, {rows, width});
  gemm(ctx.stream, ctx.scratch, logits, {x}, transposed(table.value));
  Communicator& ranks = ctx.groups.over(Axis::tensor);
  Tensor stats = ctx.scratch.make(DType::f32, {rows, 3}), parts = ctx.scratch.make(DType::f32, {ranks.size(), rows, 3});
  cross_entropy_stats(ctx.stream, stats, logits, labels, slice);
  ranks.all_gather(ctx.stream, parts, stats).wait(ctx.stream);
  cross_entropy_combine(ctx.stream, stats, parts);
  cross_entropy_loss(ctx.stream, losses, stats);
  if (!dx.exists()) return;
  const DType compute = table.value.dtype();
  Tensor dlogits = compute == DType::f32 ? logits : ctx.scratch.make(compute, logits.shape());
  cross_entropy_backward(ctx.stream, dlogits, logits, stats, labels, weights, slice, ctx.step);
  gemm(ctx.stream, ctx.scratch, dx, {dlogits}, {table.value});
  Grad dtable = table.take_grad();
  gemm(ctx.stream, ctx.scratch, dtable.tensor, transposed(dlogits), {x}, dtable.mode);
}

void LmHead::all_chunks(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  std::int64_t rows = x.size(0), step = chunk_rows(rows);
  Tensor flat_losses = losses.view({rows}), labels = batch.labels.view({rows});
  for (std::int64_t row = 0; row < rows; row += step) {
    std::int64_t count = std::min(step, rows - row);
    bool training = dx.exists();
    chunk(ctx, flat_losses.rows(row, count), training ? dx.rows(row, count) : Tensor(), x.rows(row, count),
          labels.rows(row, count), training ? batch.loss_weights.view({rows}).rows(row, count) : Tensor());
  }
}

void LmHead::loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const {
  Arena::Mark scratch(ctx.scratch);
  all_chunks(ctx, losses, {}, region.enter(ctx, ctx.scratch, x), batch);
}

void LmHead::loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  Arena::Mark scratch(ctx.scratch);
  Tensor full = region.enter(ctx, ctx.scratch, x), partial = region.partial_of(ctx, dx);
  all_chunks(ctx, losses, partial, full, batch);
  region.leave(ctx, dx, partial);
}

void LmHead::logits(Ctx& ctx, Tensor out, Tensor x) const {
  gemm(ctx.stream, ctx.scratch, out, {x}, transposed(table.value.rows(0, vocab)));
}

}  // namespace mtl
