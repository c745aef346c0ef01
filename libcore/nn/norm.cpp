#include "nn/norm.h"

namespace mtl {

NormLayer::NormLayer(const GptConfig& config, TpRegion around)
    : width(config.hidden_size), eps(static_cast<float>(config.norm_eps)), region(around) {}

void NormLayer::params(const ParamVisitor& visit, const std::string& prefix) {
  AxisSet axes = region.outside_grads();
  visit(gamma,
        {.name = prefix + ".weight", .shape = {width}, .decays = false, .summed_over = axes, .init = Init::ones});
  visit(beta, {.name = prefix + ".bias", .shape = {width}, .decays = false, .summed_over = axes, .init = Init::zeros});
}

Tensor NormLayer::forward(Ctx& ctx, Tensor x, Cache& cache) const {
  std::int64_t rows = x.row_count();
  cache.x = x;
  cache.mean = ctx.slot.make(DType::f32, {rows});
  cache.rstd = ctx.slot.make(DType::f32, {rows});
  Tensor y = ctx.slot.like(x);
  layernorm_forward(ctx.stream, y, cache, gamma.value, beta.value, eps);
  return y;
}

void NormLayer::backward(Ctx& ctx, Tensor dx, Tensor dy, const Cache& cache) const {
  layernorm_backward(ctx.stream, ctx.scratch, {dx, GradMode::accumulate}, gamma.take_grad(), beta.take_grad(), dy,
                     cache, gamma.value);
}

}  // namespace mtl
