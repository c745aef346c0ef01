#include "kernels/layernorm.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {
void check_cache(const LayerNormCache& cache, const Tensor& x) {
  expect_tensor("layernorm x", cache.x, DType::f32, x.shape());
  require(x.exists() && x.size(-1) > 0, "layernorm: the last axis of ", x.shape().text(), " is empty");
  expect_tensor("layernorm mean", cache.mean.view({cache.mean.numel()}), DType::f32, {x.row_count()});
  expect_tensor("layernorm rstd", cache.rstd.view({cache.rstd.numel()}), DType::f32, {x.row_count()});
}
}  // namespace

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps) {
  expect_tensor("layernorm y", y, DType::f32, y.shape());
  check_cache(cache, y);
  expect_tensor("layernorm gamma", gamma, DType::f32, {y.size(-1)});
  expect_tensor("layernorm beta", beta, DType::f32, {y.size(-1)});
  stream.count(0, 2 * static_cast<double>(y.bytes() + cache.mean.bytes() + gamma.bytes()));
  run<cpu::layernorm_forward, cuda::layernorm_forward>(stream, y, cache, gamma, beta, eps);
}

void layernorm_backward(Stream& stream, Arena& scratch, Grad dx, Grad dgamma, Grad dbeta, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  expect_tensor("layernorm dy", dy, DType::f32, dy.shape());
  check_cache(cache, dy);
  const Shape width{dy.size(-1)};
  expect_tensor("layernorm gamma", gamma, DType::f32, width);
  if (dx.wanted()) expect_tensor("layernorm dx", dx.tensor, DType::f32, dy.shape());
  if (dgamma.wanted()) expect_tensor("layernorm dgamma", dgamma.tensor, DType::f32, width);
  if (dbeta.wanted()) expect_tensor("layernorm dbeta", dbeta.tensor, DType::f32, width);
  Arena::Mark mark(scratch);
  Tensor work;
  if (dgamma.wanted() || dbeta.wanted())
    work = make_work<cpu::layernorm_backward_work, cuda::layernorm_backward_work>(stream, scratch, dy.row_count(),
                                                                                  dy.size(-1));
  const int passes = 2 + (dx.wanted() ? 1 : 0) + (dx.wanted() && dx.mode == GradMode::accumulate ? 1 : 0);
  stream.count(0, passes * static_cast<double>(dy.bytes()));
  run<cpu::layernorm_backward, cuda::layernorm_backward>(stream, work, LayerNormGrads{dx, dgamma, dbeta}, dy, cache,
                                                         gamma);
}

}  // namespace mtl
