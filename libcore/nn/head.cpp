#include "nn/head.h"

#include "kernels/elementwise.h"

namespace mtl {

Head::Head(const ModelBuild& build, std::optional<ParamSpec> own_table)
    : norm(build.config, build.region),
      output{.vocab = build.config.vocab_size, .logits_dtype = build.logits, .region = build.region, .table = {}},
      table(std::move(own_table)) {}

void Head::params(const ParamVisitor& visit) {
  norm.params(visit, "final_norm");
  if (table) visit(output.table, *table);
}

void Head::forward(Ctx& ctx, Tensor x, Tensor losses, const Batch& batch, Cache& cache) const {
  cache.x = x;
  if (ctx.training) return;
  NormLayer::Cache unused;
  output.loss(ctx, losses, norm.forward(ctx, x, unused), batch);
}

void Head::backward(Ctx& ctx, Tensor dx, Tensor losses, const Batch& batch, const Cache& cache) const {
  Arena::Mark slot(*ctx.slot);
  Arena::Mark scratch(ctx.scratch);
  NormLayer::Cache norm_cache;
  Tensor normed = norm.forward(ctx, cache.x, norm_cache);
  Tensor dnormed = ctx.scratch.like(normed);
  output.loss_and_gradient(ctx, losses, dnormed, normed, batch);
  norm.backward(ctx, {dx}, dnormed, norm_cache);
}

void Head::logits(Ctx& ctx, Tensor out, Tensor x, const Batch& batch) const {
  std::int64_t sequences = batch.tokens.size(0), positions = batch.tokens.size(1);
  if (out.size(0) != x.size(0)) {
    Tensor last = ctx.slot->make(x.dtype(), {sequences, x.size(1)});
    for (std::int64_t b = 0; b < sequences; ++b) copy(ctx.stream, last.rows(b, 1), x.rows((b + 1) * positions - 1, 1));
    x = last;
  }
  NormLayer::Cache unused;
  output.logits(ctx, out, norm.forward(ctx, x, unused));
}

}  // namespace mtl
