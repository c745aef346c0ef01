// The region between a column-parallel and a row-parallel linear, where each tensor-parallel rank holds a part of the
// features. enter and leave are the f and g of Shoeybi et al. 2019 (figure 3): identity and all-reduce, with their
// backwards; with sequence parallelism all-gather and reduce-scatter (Korthikanti et al. 2022, figure 5).
#pragma once

#include "nn/context.h"

namespace mtl {

/// A gradient whose sum over the ranks is under way.
struct Pending {
  Tensor tensor;
  Work work;
  Tensor wait() const {
    work.wait();
    return tensor;
  }
};

struct TpRegion {
  Tensor enter(Ctx&, Tensor x) const { return x; }
  /// Sums the ranks' partial results.
  Tensor leave(Ctx& ctx, Tensor partial) const {
    ctx.groups.tensor->all_reduce(ctx.stream, partial, Reduce::sum).wait();
    return partial;
  }
  Tensor leave_backward(Ctx&, Tensor dy) const { return dy; }
  /// Starts the sum over the ranks; weight gradients run behind it.
  Pending enter_backward(Ctx& ctx, Tensor dx) const {
    return {dx, ctx.groups.tensor->all_reduce(ctx.stream, dx, Reduce::sum)};
  }
};

}  // namespace mtl
