#include "kernels/head_norm.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
/// Checks that `slice` has the same heads as `x`.
void check_heads_like(const char* what, const HeadSlice& slice, const HeadSlice& x) {
  check_slice(what, slice);
  expect_tensor(what, slice.tensor, x.tensor.dtype(), slice.tensor.shape());
  require(slice.heads() == x.heads() && slice.tensor.size(4) == x.tensor.size(4), what, ": heads ", slice.heads(),
          " of ", slice.tensor.size(4), " elements, x has ", x.heads(), " of ", x.tensor.size(4));
}

void check_normalized(const HeadSlice& x, const Tensor& gamma) {
  check_slice("head_norm x", x);
  require(x.tensor.size(4) > 0, "head_norm: the heads of ", x.tensor.shape(), " are empty");
  expect_tensor("head_norm gamma", gamma, x.tensor.dtype(), {x.tensor.size(4)});
}
}  // namespace

void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  check_normalized(x, gamma);
  check_heads_like("head_norm y", y, x);
  if (rstd.exists()) expect_tensor("head_norm rstd", rstd, DType::f32, x.heads());
  stream.count(0, double(2 * x.bytes() + rstd.bytes() + gamma.bytes()));
  run<cpu::head_norm_forward, cuda::head_norm_forward>(stream, y, rstd, x, gamma, eps);
}

void head_norm_backward(Stream& stream, Arena& scratch, const HeadSlice& dx, Grad dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma) {
  check_normalized(x, gamma);
  check_heads_like("head_norm dx", dx, x);
  check_heads_like("head_norm dy", dy, x);
  expect_tensor("head_norm rstd", rstd, DType::f32, x.heads());
  expect_grad("head_norm dgamma", dgamma, gamma.shape());
  Arena::Mark mark(scratch);
  const std::int64_t width = gamma.numel();
  const Tensor work = make_row_sums(stream, scratch, dgamma.wanted(), x.heads().numel(), width, width);
  stream.count(0, double(3 * x.bytes() + rstd.bytes() + gamma.bytes()));
  run<cpu::head_norm_backward, cuda::head_norm_backward>(stream, work, dx, dgamma, dy, x, rstd, gamma);
}

}  // namespace mtl
