#include "kernels/rmsnorm.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
/// Checks the operands that forward and backward share. `y` is the result or its gradient.
void check_rmsnorm(const RmsNormCache& cache, const Tensor& y, const Tensor& gamma) {
  expect_stream("rmsnorm x", cache.x.dtype(), y.dtype());
  expect_tensor("rmsnorm x", cache.x, cache.x.dtype(), y.shape());
  require(y.exists() && y.size(-1) > 0, "rmsnorm: the last axis of ", y.shape(), " is empty");
  expect_tensor("rmsnorm rstd", cache.rstd.view({cache.rstd.numel()}), DType::f32, {y.row_count()});
  expect_tensor("rmsnorm gamma", gamma, y.dtype(), {y.size(-1)});
}
}  // namespace

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, Tensor gamma, float eps,
                     const ResidualSum& sum) {
  check_rmsnorm(cache, y, gamma);
  if (sum.exists()) sum.check(cache.x, y.dtype());
  expect_in_place("rmsnorm y", y, cache.x);
  stream.count(0, double(sum.bytes() + cache.x.bytes() + y.bytes() + cache.rstd.bytes() + gamma.bytes()));
  run<cpu::rmsnorm_forward, cuda::rmsnorm_forward>(stream, y, cache, sum, gamma, eps);
}

void rmsnorm_backward(Stream& stream, Arena& scratch, StreamGrad dx, Grad dgamma, Tensor dy, const RmsNormCache& cache,
                      Tensor gamma) {
  check_rmsnorm(cache, dy, gamma);
  check_stream_grad("rmsnorm dx", dx, cache.x, dy);
  expect_grad("rmsnorm dgamma", dgamma, {dy.size(-1)});
  // Models with this norm seldom have such biases: it does not pay to compile kernels for them.
  if (dx.dbias.wanted()) residual_backward(stream, scratch, {}, dx.dbias, dx.skip, {}, {});
  Arena::Mark mark(scratch);
  const std::int64_t width = dy.size(-1);
  const Tensor work = make_row_sums(stream, scratch, dgamma.wanted(), dy.row_count(), width, width);
  const int passes = 1 + (dx.wanted() ? 1 : 0) + (dx.skip.exists() ? 1 : 0);
  stream.count(0, double(dy.bytes()) + passes * double(cache.x.bytes()));
  run<cpu::rmsnorm_backward, cuda::rmsnorm_backward>(stream, work, dx, dgamma, dy, cache, gamma);
}

}  // namespace mtl
