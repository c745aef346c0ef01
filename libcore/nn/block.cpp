#include "nn/block.h"

#include "kernels/residual.h"

namespace mtl {

Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer) {
  Dropout out;
  out.probability = site == DropoutSite::attention ? options.attention : options.hidden;
  out.key = {options.seed, static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(site)};
  return out;
}

Block::Block(const GptConfig& config, const DropoutOptions& dropout, std::int64_t layer)
    : number(layer),
      norm1(config),
      norm2(config),
      attention(config, dropout_at(dropout, DropoutSite::attention, layer)),
      mlp(config),
      attention_dropout(dropout_at(dropout, DropoutSite::attention_output, layer)),
      mlp_dropout(dropout_at(dropout, DropoutSite::mlp_output, layer)) {}

void Block::params(const ParamVisitor& visit) {
  std::string prefix = cat("layers.", number);
  norm1.params(visit, prefix + ".norm1");
  attention.params(visit, prefix + ".attention");
  norm2.params(visit, prefix + ".norm2");
  mlp.params(visit, prefix + ".mlp");
}

Dropout Block::active(Dropout dropout, const Ctx& ctx) const {
  dropout.state = ctx.state;
  if (!ctx.training) dropout.probability = 0;
  return dropout;
}

Tensor Block::forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  Tensor branch = attention.forward(ctx, norm1.forward(ctx, x, cache.norm1), batch, cache.attention);
  Tensor middle = ctx.slot.like(x);
  residual_forward(ctx.stream, middle, x, branch, attention.out_bias.value, active(attention_dropout, ctx));
  branch = mlp.forward(ctx, norm2.forward(ctx, middle, cache.norm2), cache.mlp);
  Tensor y = ctx.slot.like(x);
  residual_forward(ctx.stream, y, middle, branch, mlp.down_bias.value, active(mlp_dropout, ctx));
  return y;
}

void Block::backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  // The branch's gradient is a tensor of its own: dx goes on changing while weight gradients still wait for it.
  Tensor dbranch = ctx.slot.like(dx);
  residual_backward(ctx.stream, ctx.scratch, dbranch, mlp.down_bias.take_grad(), dx, active(mlp_dropout, ctx));
  norm2.backward(ctx, dx, mlp.backward(ctx, dbranch, cache.mlp), cache.norm2);
  dbranch = ctx.slot.like(dx);
  residual_backward(ctx.stream, ctx.scratch, dbranch, attention.out_bias.take_grad(), dx,
                    active(attention_dropout, ctx));
  norm1.backward(ctx, dx, attention.backward(ctx, dbranch, batch, cache.attention), cache.norm1);
}

void Block::forward_cached(Ctx& ctx, Tensor x, const KvCache& kv) const {
  Arena::Mark slot(ctx.slot);
  Arena::Mark scratch(ctx.scratch);
  NormLayer::Cache norm_cache;
  Mlp::Cache mlp_cache;
  Tensor branch = attention.forward_cached(ctx, norm1.forward(ctx, x, norm_cache), kv);
  residual_forward(ctx.stream, x, x, branch, attention.out_bias.value, {});
  branch = mlp.forward(ctx, norm2.forward(ctx, x, norm_cache), mlp_cache);
  residual_forward(ctx.stream, x, x, branch, mlp.down_bias.value, {});
}

}  // namespace mtl
