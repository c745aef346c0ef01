#include "nn/mlp.h"

#include "device/copy.h"

namespace mtl {

void Mlp::params(const ParamVisitor& visit, const std::string& prefix) {
  std::vector<std::int64_t> features = {config.ffn_hidden_size};
  if (config.gated_mlp) features.insert(features.begin(), 2);
  const Ownership split{.shards = {{config.gated_mlp ? 1 : 0, Axis::tensor}}};
  std::vector<std::int64_t> matrix = features;
  matrix.push_back(config.hidden_size);
  visit(up, {.name = prefix + ".up.weight", .shape = matrix, .ownership = split, .init_std = float(config.init_std)});
  if (config.bias.mlp) visit(up_bias, vector_spec(prefix + ".up.bias", features, split));
  visit(down, {.name = prefix + ".down.weight",
               .shape = {config.hidden_size, config.ffn_hidden_size},
               .ownership = {.shards = {{1, Axis::tensor}}},
               .init_std = float(config.output_init_std())});
  if (config.bias.mlp) visit(down_bias, vector_spec(prefix + ".down.bias", {config.hidden_size}, region.outside()));
}

Tensor Mlp::forward(Ctx& ctx, Tensor x, Cache& cache) const {
  Tensor out = ctx.scratch.like(x), full = region.enter(ctx, ctx.scratch, x);
  std::int64_t rows = full.size(0), width = down.value.size(1);
  cache.x = x;
  cache.pre = ctx.slot->make(x.dtype(), {rows, config.gated_mlp ? 2 * width : width});
  cache.act = ctx.slot->make(x.dtype(), {rows, width});
  if (config.gated_mlp) {
    gemm(ctx.stream, ctx.scratch, cache.pre, {full}, transposed(up_matrix()), GradMode::overwrite,
         {.bias = up_bias_row()});
    gated_forward(ctx.stream, cache.act, cache.pre, config.activation);
  } else {
    gemm(ctx.stream, ctx.scratch, cache.act, {full}, transposed(up.value), GradMode::overwrite,
         {.bias = up_bias.value, .act = Epilogue::Act::forward, .activation = config.activation, .aux = cache.pre});
  }
  Tensor partial = region.partial_of(ctx, out);
  gemm(ctx.stream, ctx.scratch, partial, {cache.act}, transposed(down.value));
  return region.leave(ctx, out, partial);
}

Tensor Mlp::backward(Ctx& ctx, Tensor dy, const Cache& cache) const {
  Tensor full_dy = region.leave_backward(ctx, dy);
  // If the weight gradients are deferred, dpre stays until then. It takes the memory of pre, which is not needed again.
  Tensor pre = cache.pre, dpre = ctx.defers_weights ? cache.pre : ctx.slot->like(cache.pre);
  if (ctx.defers_weights && !config.gated_mlp) {  // a product must not overwrite an operand of its epilogue
    pre = ctx.scratch.like(cache.pre);
    copy_on_device(ctx.stream, pre, cache.pre);
  }
  if (config.gated_mlp) {
    Tensor dact = ctx.scratch.like(cache.act);  // dact = dy W_down
    gemm(ctx.stream, ctx.scratch, dact, {full_dy}, {down.value});
    gated_backward(ctx.stream, dpre, dact, pre, config.activation);
  } else {
    gemm(ctx.stream, ctx.scratch, dpre, {full_dy}, {down.value}, GradMode::overwrite,
         {.act = Epilogue::Act::backward, .activation = config.activation, .aux = pre});  // (dy W) * act'(pre)
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
