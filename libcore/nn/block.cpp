#include "nn/block.h"

namespace mtl {

Block::Block(const GptConfig& config, const DropoutOptions& dropout, TpRegion tp_region, std::int64_t layer,
             bool recomputes_attention)
    : number(layer),
      parallel_residual(config.parallel_residual),
      region(tp_region),
      norm1(config, tp_region),
      norm2(config, tp_region),
      attention(config, dropout_at(dropout, DropoutSite::attention, layer), tp_region, layer),
      mlp(config, tp_region),
      attention_dropout(dropout_at(dropout, DropoutSite::attention_output, layer)),
      mlp_dropout(dropout_at(dropout, DropoutSite::mlp_output, layer)) {
  attention.is_recomputed = recomputes_attention;
}

void Block::params(const ParamVisitor& visit) {
  std::string prefix = cat("layers.", number);
  norm1.params(visit, prefix + ".norm1");
  attention.params(visit, prefix + ".attention");
  norm2.params(visit, prefix + ".norm2");
  mlp.params(visit, prefix + ".mlp");
}

void Block::forward(Ctx& ctx, Tensor x, Tensor y, const Batch& batch, Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  const RowMap rows = region.map_outside(ctx, batch.rows(), x.size(0));
  const Tensor attended = attention.forward(ctx, norm1.forward(ctx, x, cache.norm1), batch, cache.attention);
  const ResidualSum sum{x, attended, attention.out_bias.value, dropout_in(ctx, attention_dropout), rows};
  Tensor middle = y, normed;
  if (parallel_residual) {
    residual_forward(ctx.stream, middle, sum);
    normed = norm2.forward(ctx, x, cache.norm2);
  } else {
    middle = ctx.slot->like(x);
    normed = norm2.forward(ctx, middle, cache.norm2, sum);
  }
  const Tensor mlp_out = mlp.forward(ctx, normed, cache.mlp);
  residual_forward(ctx.stream, y, {middle, mlp_out, mlp.down_bias.value, dropout_in(ctx, mlp_dropout), rows});
}

void Block::backward(Ctx& ctx, Tensor dx, const Batch& batch, const Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  const RowMap rows = region.map_outside(ctx, batch.rows(), dx.size(0));
  // The branch gradient is a separate tensor, because dx changes before the queued weight gradients are computed.
  auto branch_gradient = [&](const Param& bias, const Dropout& dropout) {
    Tensor dbranch = ctx.slot->make(mlp.down.value.dtype(), dx.shape());
    residual_backward(ctx.stream, ctx.scratch, dbranch, bias.take_grad(), dx, dropout_in(ctx, dropout), rows);
    return dbranch;
  };
  // dx already holds the skip connection's gradient, to which the norms add theirs.
  const Grad total{dx, GradMode::accumulate};
  Tensor dmlp = branch_gradient(mlp.down_bias, mlp_dropout), dattention;
  if (parallel_residual) dattention = branch_gradient(attention.out_bias, attention_dropout);
  norm2.backward(ctx, total, mlp.backward(ctx, dmlp, cache.mlp), cache.norm2);
  if (!parallel_residual) dattention = branch_gradient(attention.out_bias, attention_dropout);
  norm1.backward(ctx, total, attention.backward(ctx, dattention, batch, cache.attention), cache.norm1);
}

}  // namespace mtl
