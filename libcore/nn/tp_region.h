// The region between a column-parallel and a row-parallel linear layer, where each tensor-parallel rank holds some
// features of all rows. enter() and leave() are the functions f and g in Shoeybi et al. 2019 (figure 3): identity and
// all-reduce in forward, all-reduce and identity in backward. With sequence parallelism, they are all-gather and
// reduce-scatter (Korthikanti et al. 2022, figure 5).
//
// Outside the region, every rank holds all N = B T rows of a micro-batch or, with sequence parallelism, n = N / tp
// consecutive rows, in rank order. Operators outside the region (norms, dropout, the skip connection) work row by row.
#pragma once

#include "kernels/row_map.h"
#include "nn/context.h"

namespace mtl {

/// A sum over ranks that is in progress.
struct Pending {
  Tensor tensor;
  Work work;
  Tensor wait(const Ctx& ctx) const {
    work.wait(ctx.stream);
    return tensor;
  }
};

struct TpRegion {
  bool sequence_parallel = false;

  /// Returns how many rows this rank holds outside the region if there are `rows` rows inside.
  std::int64_t rows_outside(const ProcessGroups& groups, std::int64_t rows) const {
    return sequence_parallel ? rows / groups.over(Axis::tensor).size() : rows;
  }
  /// Maps the `rows` rows that this rank holds outside the region to their positions in the run. `all` is the map for
  /// the entire micro-batch.
  RowMap map_outside(const Ctx& ctx, RowMap all, std::int64_t rows) const {
    if (sequence_parallel) all.first_row += ctx.groups.over(Axis::tensor).rank() * rows;
    return all;
  }
  /// Returns the ownership of a parameter that is applied outside the region, to this rank's rows.
  Ownership outside() const { return {.partial = sequence_parallel ? AxisSet(Axis::tensor) : AxisSet()}; }

  /// Enters the region: returns (N, C) for x (n, C). This is x itself or, with sequence parallelism, the rows of all
  /// ranks gathered into `memory`.
  Tensor enter(Ctx& ctx, Arena& memory, Tensor x) const;
  /// Returns memory for the term (N, C) that this rank contributes to the sum `out` (n, C): `out` itself or, with
  /// sequence parallelism, scratch memory.
  Tensor partial_of(Ctx& ctx, Tensor out) const;
  /// Leaves the region: sums all ranks' `partial` tensors, and writes the sum or, with sequence parallelism, this
  /// rank's rows of it to `out`. `partial` must be the tensor that partial_of(out) returned.
  Tensor leave(Ctx& ctx, Tensor out, Tensor partial) const { return enter_backward(ctx, out, partial).wait(ctx); }
  /// Returns dy (N, C) for weight gradients: dy itself or, with sequence parallelism, the rows of all ranks gathered
  /// into the slot.
  Tensor leave_backward(Ctx& ctx, Tensor dy) const { return enter(ctx, *ctx.slot, dy); }
  /// Starts the sum that leave(dx, partial) computes, so that weight gradients can be computed in the meantime.
  /// `partial` is as in leave().
  Pending enter_backward(Ctx& ctx, Tensor dx, Tensor partial) const;
};

}  // namespace mtl
