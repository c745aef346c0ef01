#include "kernels/rmsnorm.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {
void check_rmsnorm(const RmsNormCache& cache, const Tensor& x) {
  expect_tensor("rmsnorm x", cache.x, DType::f32, x.shape());
  require(x.exists() && x.size(-1) > 0, "rmsnorm: the last axis of ", x.shape().text(), " is empty");
  expect_tensor("rmsnorm rstd", cache.rstd.view({cache.rstd.numel()}), DType::f32, {x.row_count()});
}
}  // namespace

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, Tensor gamma, float eps) {
  expect_tensor("rmsnorm y", y, DType::f32, y.shape());
  check_rmsnorm(cache, y);
  expect_tensor("rmsnorm gamma", gamma, DType::f32, {y.size(-1)});
  stream.count(0, static_cast<double>(2 * y.bytes() + cache.rstd.bytes() + gamma.bytes()));
  run<cpu::rmsnorm_forward, cuda::rmsnorm_forward>(stream, y, cache, gamma, eps);
}

void rmsnorm_backward(Stream& stream, Arena& scratch, Grad dx, Grad dgamma, Tensor dy, const RmsNormCache& cache,
                      Tensor gamma) {
  expect_tensor("rmsnorm dy", dy, DType::f32, dy.shape());
  check_rmsnorm(cache, dy);
  expect_tensor("rmsnorm gamma", gamma, DType::f32, {dy.size(-1)});
  if (dx.wanted()) expect_tensor("rmsnorm dx", dx.tensor, DType::f32, dy.shape());
  if (dgamma.wanted()) expect_tensor("rmsnorm dgamma", dgamma.tensor, DType::f32, {dy.size(-1)});
  Arena::Mark mark(scratch);
  Tensor work;
  if (dgamma.wanted())
    work = make_work<cpu::rmsnorm_backward_work, cuda::rmsnorm_backward_work>(stream, scratch, dy.row_count(),
                                                                              dy.size(-1));
  const int passes = 2 + (dx.wanted() ? 1 : 0) + (dx.wanted() && dx.mode == GradMode::accumulate ? 1 : 0);
  stream.count(0, passes * static_cast<double>(dy.bytes()));
  run<cpu::rmsnorm_backward, cuda::rmsnorm_backward>(stream, work, dx, dgamma, dy, cache, gamma);
}

}  // namespace mtl
