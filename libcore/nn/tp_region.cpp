#include "nn/tp_region.h"

namespace mtl {

Tensor TpRegion::enter(Ctx& ctx, Arena& memory, Tensor x) const {
  if (!sequence_parallel) return x;
  Tensor all = memory.make(x.dtype(), {x.size(0) * ctx.groups.over(Axis::tensor).size(), x.size(1)});
  ctx.groups.over(Axis::tensor).all_gather(ctx.stream, all, x).wait(ctx.stream);
  return all;
}

Tensor TpRegion::partial_of(Ctx& ctx, Tensor out) const {
  if (!sequence_parallel) return out;
  return ctx.scratch.make(out.dtype(), {out.size(0) * ctx.groups.over(Axis::tensor).size(), out.size(1)});
}

Pending TpRegion::enter_backward(Ctx& ctx, Tensor dx, Tensor partial) const {
  if (sequence_parallel) return {dx, ctx.groups.over(Axis::tensor).reduce_scatter(ctx.stream, dx, partial)};
  return {dx, ctx.groups.over(Axis::tensor).all_reduce(ctx.stream, dx)};
}

}  // namespace mtl
