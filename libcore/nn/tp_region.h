// The region between a column-parallel and a row-parallel linear layer, where each tensor-parallel rank holds a part of
// the features of all rows. enter and leave are the f and g of Shoeybi et al. 2019 (figure 3): identity and all-reduce,
// with their backwards; with sequence parallelism all-gather and reduce-scatter (Korthikanti et al. 2022, figure 5).
//
// Outside, every rank holds all N = B T rows of a micro-batch; with sequence parallelism it holds n = N / tp of them,
// in rank order. Operators outside (norms, dropout, the skip connection) work row by row.
#pragma once

#include "kernels/row_map.h"
#include "nn/context.h"

namespace mtl {

/// A sum over the ranks in progress.
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

  /// Returns this rank's number of rows outside, for N = `rows` inside.
  std::int64_t rows_outside(const Ctx& ctx, std::int64_t rows) const {
    return sequence_parallel ? rows / ctx.groups.over(Axis::tensor).size() : rows;
  }
  /// Returns the map of this rank's `held` rows outside to their places in the run; `all` maps the micro-batch.
  RowMap rows_held(const Ctx& ctx, RowMap all, std::int64_t held) const {
    if (sequence_parallel) all.first_row += ctx.groups.over(Axis::tensor).rank() * held;
    return all;
  }
  /// Returns the axes over which to sum the gradient of a parameter that is applied outside, to this rank's rows.
  AxisSet outside_grads() const { return sequence_parallel ? kReplicaAxes | Axis::tensor : kReplicaAxes; }

  /// Returns x (N, C) inside for x (n, C) outside: x itself, or gathered into `memory` with sequence parallelism.
  Tensor enter(Ctx& ctx, Arena& memory, Tensor x) const;
  /// Returns memory for this rank's term (N, C) of the sum `out` (n, C): `out`, or scratch with sequence parallelism.
  Tensor partial_of(Ctx& ctx, Tensor out) const;
  /// Writes out = the sum of the ranks' partials, or this rank's rows of it. `partial` was returned by partial_of(out).
  Tensor leave(Ctx& ctx, Tensor out, Tensor partial) const { return enter_backward(ctx, out, partial).wait(ctx); }
  /// Returns dy (N, C) for weight gradients: dy itself, or gathered into the slot with sequence parallelism.
  Tensor leave_backward(Ctx& ctx, Tensor dy) const { return enter(ctx, ctx.slot, dy); }
  /// Starts the sum dx = leave(partial), so that weight gradients overlap with it. `partial` as in leave().
  Pending enter_backward(Ctx& ctx, Tensor dx, Tensor partial) const;
};

}  // namespace mtl
