#include "kernels/layernorm.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
/// Checks the operands that forward and backward share. `y` is the result or its gradient.
void check_cache(const LayerNormCache& cache, const Tensor& y) {
  expect_stream("layernorm x", cache.x.dtype(), y.dtype());
  expect_tensor("layernorm x", cache.x, cache.x.dtype(), y.shape());
  require(y.exists() && y.size(-1) > 0, "layernorm: the last axis of ", y.shape(), " is empty");
  expect_tensor("layernorm mean", cache.mean.view({cache.mean.numel()}), DType::f32, {y.row_count()});
  expect_tensor("layernorm rstd", cache.rstd.view({cache.rstd.numel()}), DType::f32, {y.row_count()});
}
}  // namespace

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps,
                       const ResidualSum& sum) {
  check_cache(cache, y);
  if (sum.exists()) sum.check(cache.x, y.dtype());
  expect_tensor("layernorm gamma", gamma, y.dtype(), {y.size(-1)});
  expect_tensor("layernorm beta", beta, y.dtype(), {y.size(-1)});
  stream.count(0, double(sum.bytes() + cache.x.bytes() + y.bytes()) + 2 * double(cache.mean.bytes() + gamma.bytes()));
  run<cpu::layernorm_forward, cuda::layernorm_forward>(stream, y, cache, sum, gamma, beta, eps);
}

void layernorm_backward(Stream& stream, Arena& scratch, StreamGrad dx, Grad dgamma, Grad dbeta, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  check_cache(cache, dy);
  const Shape width{dy.size(-1)};
  expect_tensor("layernorm gamma", gamma, dy.dtype(), width);
  check_stream_grad("layernorm dx", dx, cache.x, dy);
  expect_grad("layernorm dgamma", dgamma, width);
  expect_grad("layernorm dbeta", dbeta, width);
  // On GPUs, the sum of skip's rows is compiled for 16 bits only, and a block may lack the memory for sums so wide.
  constexpr std::int64_t kWidest = 8192;
  if (dx.dbias.wanted() && (cache.x.dtype() == DType::f32 || dy.size(-1) > kWidest)) {
    residual_backward(stream, scratch, {}, dx.dbias, dx.skip, {}, {});
    dx.dbias = {};
  }
  Arena::Mark mark(scratch);
  const LayerNormGrads grads{dx, dgamma, dbeta};
  const Tensor work = make_row_sums(stream, scratch, dgamma.wanted() || dbeta.wanted() || dx.dbias.wanted(),
                                    dy.row_count(), dy.size(-1), grads.arrays() * dy.size(-1));
  const int passes = (dx.wanted() ? 1 : 0) + (dx.skip.exists() ? 1 : 0);
  stream.count(0, double(dy.bytes() + cache.x.bytes()) + passes * double(cache.x.bytes()));
  run<cpu::layernorm_backward, cuda::layernorm_backward>(stream, work, grads, dy, cache, gamma);
}

}  // namespace mtl
