#include "nn/attention_layer.h"

#include <cmath>

#include "kernels/gemm.h"
#include "kernels/head_norm.h"
#include "kernels/rotary.h"
#include "nn/dropout.h"

namespace mtl {

AttentionLayer::AttentionLayer(const ModelBuild& build, std::int64_t layer)
    : config(build.config),
      window(build.config.window_of(layer)),
      is_recomputed(build.recompute.recomputes_attention()),
      dropout(dropout_at(build.dropout, DropoutSite::attention, layer)),
      region(build.region),
      context(build.context) {}

void AttentionLayer::params(const ParamVisitor& visit, const std::string& prefix) {
  std::int64_t per_group = heads_per_group() + 2;
  visit(qkv, {.name = prefix + ".qkv.weight",
              .shape = {config.num_query_groups, per_group, config.head_dim, config.hidden_size},
              .ownership = {.shards = {{0, Axis::tensor}}},
              .use = ParamUse::qkv,
              .init_std = float(config.init_std)});
  if (config.bias.qkv)
    visit(qkv_bias, vector_spec(prefix + ".qkv.bias", {config.num_query_groups, per_group, config.head_dim},
                                {.shards = {{0, Axis::tensor}}}));
  if (config.qk_norm) {
    // Each rank normalizes its own heads, so the gradient must be summed over ranks.
    const Ownership partial{.partial = Axis::tensor};
    for (auto [param, name] : {std::pair(&q_norm, ".q_norm.weight"), std::pair(&k_norm, ".k_norm.weight")})
      visit(*param, vector_spec(prefix + name, {config.head_dim}, partial, Init::ones));
  }
  visit(out, {.name = prefix + ".out.weight",
              .shape = {config.hidden_size, config.num_heads * config.head_dim},
              .ownership = {.shards = {{1, Axis::tensor}}},
              .init_std = float(config.output_init_std())});
  if (config.bias.out) visit(out_bias, vector_spec(prefix + ".out.bias", {config.hidden_size}, region.outside()));
}

AttentionInput AttentionLayer::input(const Ctx& ctx, const Cache& cache, const Batch& batch) const {
  AttentionInput in;
  in.qkv = unpack_qkv(cache.qkv);
  in.qkv.v = unpack_qkv(cache.projected).v;
  in.document_start = batch.document_start;
  in.window = window;
  in.scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  in.dropout = dropout_in(ctx, dropout);
  in.rows = batch.rows();
  in.first_head = ctx.groups.over(Axis::tensor).rank() * cache.qkv.size(2) * heads_per_group();
  return in;
}

void AttentionLayer::project_qkv(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const {
  Tensor full = region.enter(ctx, ctx.scratch, x);
  const std::int64_t local_groups = qkv.value.size(0), per_group = qkv.value.size(1),
                     width = local_groups * per_group * config.head_dim, rows = full.size(0);
  const std::int64_t sequences = batch.tokens.size(0);
  cache.projected = ctx.slot->make(x.dtype(), {sequences, rows / sequences, local_groups, per_group, config.head_dim});
  gemm(ctx.stream, ctx.scratch, cache.projected.view({rows, width}), {full},
       transposed(qkv.value.view({width, config.hidden_size})), GradMode::overwrite,
       {.bias = qkv_bias.exists() ? qkv_bias.value.view({width}) : Tensor()});
  cache.qkv = cache.projected;
  if (config.qk_norm)
    normalize(ctx, batch, cache);
  else if (config.is_rotary())
    rotary_forward(ctx.stream, {cache.qkv, 0, per_group - 1}, batch.rotary, config.rotary.interleaved);
}

/// The operands of the norms and the rotation of q and k.
QkNorm AttentionLayer::norm_of(const Batch& batch, const Cache& cache) const {
  return {.q_gamma = q_norm.value,
          .k_gamma = k_norm.value,
          .q_rstd = cache.q_rstd,
          .k_rstd = cache.k_rstd,
          .angles = batch.rotary,
          .interleaved = config.rotary.interleaved};
}

/// Normalizes q and k, and rotates them in a rotary model.
void AttentionLayer::normalize(Ctx& ctx, const Batch& batch, Cache& cache) const {
  const Qkv from = unpack_qkv(cache.projected);
  const Shape shape = cache.projected.shape();
  const auto eps = float(config.norm_eps);
  cache.qkv = ctx.slot->like(cache.projected);
  cache.q_rstd = ctx.slot->make(DType::f32, {shape[0], shape[1], shape[2], from.q.count});
  cache.k_rstd = ctx.slot->make(DType::f32, {shape[0], shape[1], shape[2], 1});
  if (config.is_rotary())
    return qk_norm_rotary_forward(ctx.stream, cache.qkv, cache.projected, norm_of(batch, cache), eps);
  const Qkv to = unpack_qkv(cache.qkv);
  head_norm_forward(ctx.stream, to.q, cache.q_rstd, from.q, q_norm.value, eps);
  head_norm_forward(ctx.stream, to.k, cache.k_rstd, from.k, k_norm.value, eps);
}

/// Turns the gradient with respect to attention's input into the gradient with respect to the projection's output, in
/// place.
void AttentionLayer::prepare_backward(Ctx& ctx, Tensor dqkv, const Batch& batch, const Cache& cache) const {
  if (!config.qk_norm) {
    if (config.is_rotary())
      rotary_backward(ctx.stream, {dqkv, 0, dqkv.size(3) - 1}, batch.rotary, config.rotary.interleaved);
    return;
  }
  if (config.is_rotary())
    return qk_norm_rotary_backward(ctx.stream, ctx.scratch, dqkv, q_norm.take_grad(), k_norm.take_grad(),
                                   cache.projected, norm_of(batch, cache));
  const Qkv grads = unpack_qkv(dqkv), from = unpack_qkv(cache.projected);
  head_norm_backward(ctx.stream, ctx.scratch, grads.q, q_norm.take_grad(), grads.q, from.q, cache.q_rstd, q_norm.value);
  head_norm_backward(ctx.stream, ctx.scratch, grads.k, k_norm.take_grad(), grads.k, from.k, cache.k_rstd, k_norm.value);
}

Tensor AttentionLayer::project_out(Ctx& ctx, Tensor out_rows, Tensor attended) const {
  std::int64_t rows = attended.size(0) * attended.size(1), width = out.value.size(1);
  Tensor partial = region.partial_of(ctx, out_rows);
  gemm(ctx.stream, ctx.scratch, partial, {attended.view({rows, width})}, transposed(out.value));
  return region.leave(ctx, out_rows, partial);
}

/// Allocates the output of attention.
Tensor AttentionLayer::make_attended(Arena& memory, const Cache& cache) const {
  const Shape qkv_shape = cache.qkv.shape();
  return memory.make(cache.qkv.dtype(),
                     {qkv_shape[0], qkv_shape[1], qkv_shape[2] * heads_per_group(), config.head_dim});
}

/// Allocates the logsumexp that backward needs.
Tensor AttentionLayer::make_logsumexp(Arena& memory, const Cache& cache) const {
  const Shape qkv_shape = cache.qkv.shape();
  return memory.make(DType::f32, {qkv_shape[0], qkv_shape[2] * heads_per_group(), qkv_shape[1]});
}

Tensor AttentionLayer::forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const {
  Tensor out_rows = ctx.scratch.like(x);
  cache.x = x;
  project_qkv(ctx, x, batch, cache);
  const bool keeps = !(is_recomputed && ctx.training);
  cache.attended = make_attended(keeps ? *ctx.slot : ctx.scratch, cache);
  const bool is_decoding = cache.past.keys.exists();
  cache.logsumexp = keeps && !is_decoding ? make_logsumexp(*ctx.slot, cache) : Tensor();
  AttentionInput in = input(ctx, cache, batch);
  if (is_decoding) {
    append_to_cache(ctx.stream, cache.past, in.qkv.k, in.qkv.v);
    in.qkv.k = {cache.past.keys};
    in.qkv.v = {cache.past.values};
    in.past = cache.past.lengths;
  }
  context.forward(ctx, cache.attended, cache.logsumexp, in);
  return project_out(ctx, out_rows, cache.attended);
}

Tensor AttentionLayer::backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const {
  Tensor dx = ctx.scratch.like(dy), full_dy = region.leave_backward(ctx, dy);
  const AttentionInput in = input(ctx, cache, batch);
  Tensor kept = cache.attended, logsumexp = cache.logsumexp;
  if (is_recomputed) {
    kept = make_attended(*ctx.slot, cache);
    logsumexp = make_logsumexp(*ctx.slot, cache);
    context.forward(ctx, kept, logsumexp, in);
  }
  std::int64_t rows = full_dy.size(0), width = qkv.value.numel() / config.hidden_size;
  Tensor attended = kept.view({rows, out.value.size(1)});
  Tensor dattended = ctx.scratch.like(kept);  // dattended = dy W_out
  gemm(ctx.stream, ctx.scratch, dattended.view(attended.shape()), {full_dy}, {out.value});
  ctx.weight_grads->push(out, full_dy, attended);
  Tensor dqkv = ctx.slot->like(cache.qkv);
  context.backward(ctx, unpack_qkv(dqkv), dattended, kept, logsumexp, in);
  prepare_backward(ctx, dqkv, batch, cache);
  // dx = dqkv W_qkv
  Tensor dpacked = dqkv.view({rows, width}), partial = region.partial_of(ctx, dx);
  gemm(ctx.stream, ctx.scratch, partial, {dpacked}, {qkv.value.view({width, config.hidden_size})});
  Pending sum = region.enter_backward(ctx, dx, partial);
  ctx.weight_grads->push(qkv, dpacked, region.enter(ctx, *ctx.slot, cache.x), qkv_bias);
  ctx.compute_weight_grads();
  return sum.wait(ctx);
}

}  // namespace mtl
