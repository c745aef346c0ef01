#include "nn/block.h"

#include "kernels/residual.h"

namespace mtl {

Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer) {
  Dropout out;
  out.probability = site == DropoutSite::attention ? options.attention : options.hidden;
  out.key = {options.seed, static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(site)};
  return out;
}

Dropout dropout_on(Dropout dropout, const Ctx& ctx, TpRegion region, const Tensor& x, const Batch& batch) {
  dropout.samples = batch.samples;
  if (!ctx.training) dropout.probability = 0;
  dropout.first_row = region.first_row(ctx, x.size(0));
  dropout.seq_length = batch.tokens.size(1);
  return dropout;
}

Block::Block(const GptConfig& config, const DropoutOptions& dropout, TpRegion around, std::int64_t layer)
    : number(layer),
      region(around),
      norm1(config, around),
      norm2(config, around),
      attention(config, dropout_at(dropout, DropoutSite::attention, layer), around),
      mlp(config, around),
      attention_dropout(dropout_at(dropout, DropoutSite::attention_output, layer)),
      mlp_dropout(dropout_at(dropout, DropoutSite::mlp_output, layer)) {}

void Block::params(const ParamVisitor& visit) {
  std::string prefix = cat("layers.", number);
  norm1.params(visit, prefix + ".norm1");
  attention.params(visit, prefix + ".attention");
  norm2.params(visit, prefix + ".norm2");
  mlp.params(visit, prefix + ".mlp");
}

void Block::forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  Tensor branch = attention.forward(ctx, norm1.forward(ctx, x, cache.norm1), batch, cache.attention);
  Tensor middle = ctx.slot.like(x);
  residual_forward(ctx.stream, middle, x, branch, attention.out_bias.value,
                   dropout_on(attention_dropout, ctx, region, x, batch));
  branch = mlp.forward(ctx, norm2.forward(ctx, middle, cache.norm2), cache.mlp);
  residual_forward(ctx.stream, y, middle, branch, mlp.down_bias.value, dropout_on(mlp_dropout, ctx, region, x, batch));
}

void Block::backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  // The branch's gradient is a tensor of its own: dx goes on changing while weight gradients still wait for it.
  Tensor dbranch = ctx.slot.like(dx);
  residual_backward(ctx.stream, ctx.scratch, dbranch, mlp.down_bias.take_grad(), dx,
                    dropout_on(mlp_dropout, ctx, region, dx, batch));
  norm2.backward(ctx, dx, mlp.backward(ctx, dbranch, cache.mlp), cache.norm2);
  dbranch = ctx.slot.like(dx);
  residual_backward(ctx.stream, ctx.scratch, dbranch, attention.out_bias.take_grad(), dx,
                    dropout_on(attention_dropout, ctx, region, dx, batch));
  norm1.backward(ctx, dx, attention.backward(ctx, dbranch, batch, cache.attention), cache.norm1);
}

}  // namespace mtl
