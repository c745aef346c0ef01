#include "nn/block.h"

namespace mtl {

Block::Block(const ModelBuild& build, std::int64_t layer)
    : number(layer),
      parallel_residual(build.config.parallel_residual),
      region(build.region),
      norm1(build.config, region),
      norm2(build.config, region),
      attention(build, layer),
      mlp(build.config, region),
      attention_dropout(dropout_at(build.dropout, DropoutSite::attention_output, layer)),
      mlp_dropout(dropout_at(build.dropout, DropoutSite::mlp_output, layer)) {}

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

void Block::backward(Ctx& ctx, Tensor dx, Tensor dy, bool keeps_dy, const Batch& batch, const Cache& cache) const {
  Arena::Mark scratch(ctx.scratch);
  const RowMap rows = region.map_outside(ctx, batch.rows(), dy.size(0));
  const DType compute = mlp.down.value.dtype();
  // A queued weight gradient reads the branch's gradient later, so it must not change until then.
  const auto is_dout = [&](const Dropout& dropout, bool keeps_dout) {
    return keeps_dout && dy.dtype() == compute && !dropout_in(ctx, dropout).active();
  };
  // Unless it computes a tensor of its own, the norm that reads grad.skip has to sum the bias gradient.
  const auto branch_gradient = [&](StreamGrad& grad, bool keeps_dout, const Param& bias, const Dropout& dropout) {
    const Tensor dout = grad.skip;
    if (is_dout(dropout, keeps_dout)) {
      grad.dbias = bias.take_grad();
      return dout;
    }
    const Tensor dbranch = ctx.slot->make(compute, dout.shape());
    residual_backward(ctx.stream, ctx.scratch, dbranch, bias.take_grad(), dout, dropout_in(ctx, dropout), rows);
    return dbranch;
  };
  // The norms add the skip connection's gradient. Their results overwrite tensors that nothing reads any more.
  StreamGrad to_middle{cache.norm2.x, dy};
  const Tensor dmlp = branch_gradient(to_middle, keeps_dy, mlp.down_bias, mlp_dropout);
  if (parallel_residual) {
    StreamGrad again{{}, dy};
    const Tensor dattention = branch_gradient(again, keeps_dy, attention.out_bias, attention_dropout);
    if (again.dbias.wanted()) residual_backward(ctx.stream, ctx.scratch, {}, again.dbias, dy, {}, rows);
    const bool is_read = is_dout(mlp_dropout, keeps_dy) || is_dout(attention_dropout, keeps_dy);
    to_middle.tensor = is_read ? ctx.slot->like(dy) : dy;
    norm2.backward(ctx, to_middle, mlp.backward(ctx, dmlp, cache.mlp), cache.norm2);
    norm1.backward(ctx, {dx, to_middle.tensor}, attention.backward(ctx, dattention, batch, cache.attention),
                   cache.norm1);
  } else {
    norm2.backward(ctx, to_middle, mlp.backward(ctx, dmlp, cache.mlp), cache.norm2);
    StreamGrad to_x{dx, to_middle.tensor};
    const Tensor dattention = branch_gradient(to_x, true, attention.out_bias, attention_dropout);
    norm1.backward(ctx, to_x, attention.backward(ctx, dattention, batch, cache.attention), cache.norm1);
  }
}

}  // namespace mtl
