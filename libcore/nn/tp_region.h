// The region between a column-parallel and a row-parallel linear, where each tensor-parallel rank holds a part of the
// features of all rows. enter and leave are the f and g of Shoeybi et al. 2019 (figure 3): identity and all-reduce,
// with their backwards; with sequence parallelism all-gather and reduce-scatter (Korthikanti et al. 2022, figure 5).
//
// Outside, without sequence parallelism, every rank holds all N = B T rows of a micro-batch; with it the rank's part of
// them, in the order of ranks: what runs outside (norms, dropout, the skip connection) works row by row.
#pragma once

#include "kernels/row_map.h"
#include "nn/context.h"

namespace mtl {

/// A sum over the ranks that is under way.
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

  /// How many of N rows inside this rank holds outside.
  std::int64_t rows_outside(const Ctx& ctx, std::int64_t rows) const {
    return sequence_parallel ? rows / ctx.groups.over(Axis::tensor).size() : rows;
  }
  /// Where the `held` rows that this rank holds outside belong; `all` places those of the micro-batch.
  RowMap rows_held(const Ctx& ctx, RowMap all, std::int64_t held) const {
    if (sequence_parallel) all.first_row += ctx.groups.over(Axis::tensor).rank() * held;
    return all;
  }
  /// Over which ranks the gradient of a parameter is summed that works outside, on this rank's rows.
  AxisSet outside_grads() const { return sequence_parallel ? kReplicaAxes | Axis::tensor : kReplicaAxes; }

  /// x (N, C) from x outside; gathered in `memory`, if it has to be.
  Tensor enter(Ctx& ctx, Arena& memory, Tensor x) const;
  /// Memory for this rank's term (N, C) of a sum that goes to `out`, outside.
  Tensor partial_of(Ctx& ctx, Tensor out) const;
  /// out = the sum of the ranks' partials, or this rank's rows of it.
  Tensor leave(Ctx& ctx, Tensor out, Tensor partial) const { return enter_backward(ctx, out, partial).wait(ctx); }
  /// dy (N, C), to stay for weight gradients.
  Tensor leave_backward(Ctx& ctx, Tensor dy) const { return enter(ctx, ctx.slot, dy); }
  /// Like leave, started; weight gradients run behind it.
  Pending enter_backward(Ctx& ctx, Tensor dx, Tensor partial) const;
};

}  // namespace mtl
