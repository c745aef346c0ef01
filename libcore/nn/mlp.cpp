#include "nn/mlp.h"

#include <cmath>

#include "device/copy.h"

namespace mtl {

Mlp::Mlp(const GptConfig& config, TpRegion tp_region)
    : hidden(config.hidden_size),
      ffn(config.ffn_hidden_size),
      init_std(static_cast<float>(config.init_std)),
      output_init_std(static_cast<float>(config.init_std / std::sqrt(2.0 * static_cast<double>(config.num_layers)))),
      has_bias(config.bias.mlp),
      gated(config.gated_mlp),
      activation(config.activation),
      region(tp_region) {}

void Mlp::params(const ParamVisitor& visit, const std::string& prefix) {
  const std::vector<std::int64_t> features = gated ? std::vector<std::int64_t>{2, ffn} : std::vector{ffn};
  const Ownership split{.shards = {{gated ? 1 : 0, Axis::tensor}}};
  std::vector<std::int64_t> matrix = features;
  matrix.push_back(hidden);
  visit(up, {.name = prefix + ".up.weight", .shape = matrix, .ownership = split, .init_std = init_std});
  if (has_bias) visit(up_bias, vector_spec(prefix + ".up.bias", features, split));
  visit(down, {.name = prefix + ".down.weight",
               .shape = {hidden, ffn},
               .ownership = {.shards = {{1, Axis::tensor}}},
               .init_std = output_init_std});
  if (has_bias) visit(down_bias, vector_spec(prefix + ".down.bias", {hidden}, region.outside()));
}

Tensor Mlp::forward(Ctx& ctx, Tensor x, Cache& cache) const {
  Tensor out = ctx.scratch.like(x), full = region.enter(ctx, ctx.scratch, x);
  std::int64_t rows = full.size(0), width = down.value.size(1);
  cache.x = x;
  cache.pre = ctx.slot->make(x.dtype(), {rows, gated ? 2 * width : width});
  cache.act = ctx.slot->make(x.dtype(), {rows, width});
  if (gated) {
    gemm(ctx.stream, ctx.scratch, cache.pre, {full}, transposed(up_matrix()), GradMode::overwrite,
         {.bias = up_bias_row()});
    gated_forward(ctx.stream, cache.act, cache.pre, activation);
  } else {
    gemm(ctx.stream, ctx.scratch, cache.act, {full}, transposed(up.value), GradMode::overwrite,
         {.bias = up_bias.value, .act = Epilogue::Act::forward, .activation = activation, .aux = cache.pre});
  }
  Tensor partial = region.partial_of(ctx, out);
  gemm(ctx.stream, ctx.scratch, partial, {cache.act}, transposed(down.value));
  return region.leave(ctx, out, partial);
}

Tensor Mlp::backward(Ctx& ctx, Tensor dy, const Cache& cache) const {
  Tensor full_dy = region.leave_backward(ctx, dy);
  // If the weight gradients are deferred, dpre stays until then. It takes the memory of pre, which is not needed again.
  Tensor pre = cache.pre, dpre = ctx.defers_weights ? cache.pre : ctx.slot->like(cache.pre);
  if (ctx.defers_weights && !gated) {  // a product must not overwrite an operand of its epilogue
    pre = ctx.scratch.like(cache.pre);
    copy_on_device(ctx.stream, pre, cache.pre);
  }
  if (gated) {
    Tensor dact = ctx.scratch.like(cache.act);  // dact = dy W_down
    gemm(ctx.stream, ctx.scratch, dact, {full_dy}, {down.value});
    gated_backward(ctx.stream, dpre, dact, pre, activation);
  } else {
    gemm(ctx.stream, ctx.scratch, dpre, {full_dy}, {down.value}, GradMode::overwrite,
         {.act = Epilogue::Act::backward, .activation = activation, .aux = pre});  // (dy W) * act'(pre)
  }
  ctx.weight_grads->push(down, full_dy, cache.act);
  // dx = dpre W_up
  Tensor dx = ctx.scratch.like(dy), partial = region.partial_of(ctx, dx);
  gemm(ctx.stream, ctx.scratch, partial, {dpre}, {up_matrix()});
  Pending sum = region.enter_backward(ctx, dx, partial);
  ctx.weight_grads->push(up, dpre, region.enter(ctx, *ctx.slot, cache.x), up_bias);
  ctx.compute_weight_grads();
  return sum.wait(ctx);
}

}  // namespace mtl
