#include "nn/norm.h"

namespace mtl {

NormLayer::NormLayer(const GptConfig& config, TpRegion tp_region)
    : kind(config.norm), width(config.hidden_size), eps(static_cast<float>(config.norm_eps)), region(tp_region) {}

void NormLayer::params(const ParamVisitor& visit, const std::string& prefix) {
  const Ownership own = region.outside();
  visit(gamma, vector_spec(prefix + ".weight", {width}, own, Init::ones));
  if (kind == Norm::layernorm) visit(beta, vector_spec(prefix + ".bias", {width}, own));
}

Tensor NormLayer::forward(Ctx& ctx, Tensor x, Cache& cache, const ResidualSum& sum) const {
  std::int64_t rows = x.row_count();
  cache.x = x;
  cache.rstd = ctx.slot->make(DType::f32, {rows});
  if (kind == Norm::layernorm) cache.mean = ctx.slot->make(DType::f32, {rows});
  Tensor y = ctx.slot->make(gamma.value.dtype(), x.shape());
  if (kind == Norm::layernorm)
    layernorm_forward(ctx.stream, y, cache, gamma.value, beta.value, eps, sum);
  else
    rmsnorm_forward(ctx.stream, y, {cache.x, cache.rstd}, gamma.value, eps, sum);
  return y;
}

void NormLayer::backward(Ctx& ctx, const StreamGrad& dx, Tensor dy, const Cache& cache) const {
  if (kind == Norm::layernorm)
    layernorm_backward(ctx.stream, ctx.scratch, dx, gamma.take_grad(), beta.take_grad(), dy, cache, gamma.value);
  else
    rmsnorm_backward(ctx.stream, ctx.scratch, dx, gamma.take_grad(), dy, {cache.x, cache.rstd}, gamma.value);
}

}  // namespace mtl
