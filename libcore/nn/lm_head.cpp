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

/// One chunk of rows. Without dx only the losses.
void LmHead::chunk(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, Tensor labels, Tensor weights) const {
  Arena::Mark mark(ctx.scratch);
  std::int64_t rows = x.size(0), width = table.value.size(0);
  std::int64_t begin = ctx.groups.tensor->rank() * width;
  VocabSlice slice{begin, std::clamp<std::int64_t>(vocab - begin, 0, width)};
  Tensor logits = ctx.scratch.make({rows, width});
  gemm(ctx.stream, logits, {x}, transposed(table.value));
  Tensor stats = ctx.scratch.make({rows, 3});
  cross_entropy_stats(ctx.stream, stats, logits, labels, slice);
  cross_entropy_loss(ctx.stream, losses, stats);
  if (!dx.exists()) return;
  cross_entropy_backward(ctx.stream, logits, stats, labels, weights, slice);
  gemm(ctx.stream, dx, {logits}, {table.value});
  Grad dtable = table.take_grad();
  gemm(ctx.stream, dtable.tensor, transposed(logits), {x}, dtable.mode);
}

void LmHead::all_chunks(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  std::int64_t rows = x.row_count(), width = x.size(-1), step = chunk_rows(rows);
  Tensor flat_x = x.view({rows, width}), flat_losses = losses.view({rows});
  Tensor labels = batch.labels.view({rows});
  Tensor flat_dx = dx.exists() ? dx.view({rows, width}) : Tensor();
  for (std::int64_t row = 0; row < rows; row += step) {
    std::int64_t count = std::min(step, rows - row);
    bool training = dx.exists();
    chunk(ctx, flat_losses.rows(row, count), training ? flat_dx.rows(row, count) : Tensor(), flat_x.rows(row, count),
          labels.rows(row, count), training ? batch.loss_weights.view({rows}).rows(row, count) : Tensor());
  }
}

void LmHead::loss(Ctx& ctx, Tensor losses, Tensor x, const Batch& batch) const {
  all_chunks(ctx, losses, {}, x, batch);
}

void LmHead::loss_and_gradient(Ctx& ctx, Tensor losses, Tensor dx, Tensor x, const Batch& batch) const {
  all_chunks(ctx, losses, dx, x, batch);
}

void LmHead::logits(Ctx& ctx, Tensor out, Tensor x) const {
  gemm(ctx.stream, out, {x.view({x.row_count(), x.size(-1)})}, transposed(table.value.rows(0, vocab)));
}

}  // namespace mtl
