#include "nn/attention_layer.h"

#include <cmath>

#include "kernels/gemm.h"
#include "nn/dropout.h"

namespace mtl {

AttentionLayer::AttentionLayer(const GptConfig& config, Dropout probability_dropout, TpRegion around)
    : hidden(config.hidden_size),
      heads(config.num_heads),
      groups(config.num_query_groups),
      head_dim(config.head_dim),
      init_std(static_cast<float>(config.init_std)),
      output_init_std(static_cast<float>(config.init_std / std::sqrt(2.0 * static_cast<double>(config.num_layers)))),
      has_bias(config.bias.qkv),
      dropout(probability_dropout),
      region(around) {}

void AttentionLayer::params(const ParamVisitor& visit, const std::string& prefix) {
  std::int64_t per_group = heads / groups + 2;
  visit(qkv, {.name = prefix + ".qkv.weight",
              .shape = {groups, per_group, head_dim, hidden},
              .shards = {{0, Axis::tensor}},
              .init_std = init_std});
  if (has_bias)
    visit(qkv_bias, {.name = prefix + ".qkv.bias",
                     .shape = {groups, per_group, head_dim},
                     .shards = {{0, Axis::tensor}},
                     .decays = false,
                     .init = Init::zeros});
  visit(out, {.name = prefix + ".out.weight",
              .shape = {hidden, heads * head_dim},
              .shards = {{1, Axis::tensor}},
              .init_std = output_init_std});
  if (has_bias)
    visit(out_bias, {.name = prefix + ".out.bias",
                     .shape = {hidden},
                     .decays = false,
                     .summed_over = region.outside_grads(),
                     .init = Init::zeros});
}

AttentionInput AttentionLayer::input(const Ctx& ctx, Tensor packed, const Batch& batch) const {
  AttentionInput in;
  in.qkv = unpack_qkv(packed);
  in.document_start = batch.document_start;
  in.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  in.dropout = dropout_in(ctx, dropout);
  in.rows = batch.rows();
  in.first_head = ctx.groups.over(Axis::tensor).rank() * packed.size(2) * (heads / groups);
  return in;
}

Tensor AttentionLayer::project_qkv(Ctx& ctx, Tensor x, std::int64_t sequences) const {
  Tensor full = region.enter(ctx, ctx.scratch, x);
  std::int64_t local_groups = qkv.value.size(0), per_group = qkv.value.size(1),
               width = local_groups * per_group * head_dim;
  std::int64_t rows = full.size(0);
  Tensor packed = ctx.slot.make(x.dtype(), {sequences, rows / sequences, local_groups, per_group, head_dim});
  gemm(ctx.stream, ctx.scratch, packed.view({rows, width}), {full}, transposed(qkv.value.view({width, hidden})),
       GradMode::overwrite, {.bias = qkv_bias.exists() ? qkv_bias.value.view({width}) : Tensor()});
  return packed;
}

Tensor AttentionLayer::project_out(Ctx& ctx, Tensor out_rows, Tensor attended) const {
  std::int64_t rows = attended.size(0) * attended.size(1), width = out.value.size(1);
  Tensor partial = region.partial_of(ctx, out_rows);
  gemm(ctx.stream, ctx.scratch, partial, {attended.view({rows, width})}, transposed(out.value));
  return region.leave(ctx, out_rows, partial);
}

Tensor AttentionLayer::forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const {
  std::int64_t sequences = batch.tokens.size(0), length = batch.tokens.size(1);
  Tensor out_rows = ctx.scratch.like(x);
  cache.x = x;
  cache.qkv = project_qkv(ctx, x, sequences);
  std::int64_t local_heads = cache.qkv.size(2) * (heads / groups);
  cache.attended = ctx.slot.make(x.dtype(), {sequences, length, local_heads, head_dim});
  AttentionInput in = input(ctx, cache.qkv, batch);
  if (cache.past.keys.exists()) {
    append_to_cache(ctx.stream, cache.past, in.qkv.k, in.qkv.v);
    in.qkv.k = {cache.past.keys};
    in.qkv.v = {cache.past.values};
    in.past = cache.past.lengths;
  } else {
    cache.logsumexp = ctx.slot.make(DType::f32, {sequences, local_heads, length});
  }
  attention_forward(ctx.stream, ctx.scratch, cache.attended, cache.logsumexp, in);
  return project_out(ctx, out_rows, cache.attended);
}

Tensor AttentionLayer::backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const {
  Tensor dx = ctx.scratch.like(dy), full_dy = region.leave_backward(ctx, dy);
  std::int64_t rows = full_dy.size(0), width = qkv.value.numel() / hidden;
  Tensor attended = cache.attended.view({rows, out.value.size(1)});
  Tensor dattended = ctx.scratch.like(cache.attended);
  gemm(ctx.stream, ctx.scratch, dattended.view(attended.shape()), {full_dy}, {out.value});
  ctx.weight_grads->push(out, full_dy, attended);
  Tensor dqkv = ctx.slot.like(cache.qkv);
  attention_backward(ctx.stream, ctx.scratch, unpack_qkv(dqkv), dattended, cache.attended, cache.logsumexp,
                     input(ctx, cache.qkv, batch));
  Tensor dpacked = dqkv.view({rows, width}), partial = region.partial_of(ctx, dx);
  gemm(ctx.stream, ctx.scratch, partial, {dpacked}, {qkv.value.view({width, hidden})});
  Pending sum = region.enter_backward(ctx, dx, partial);
  ctx.weight_grads->push(qkv, dpacked, region.enter(ctx, ctx.slot, cache.x), qkv_bias);
  return sum.wait(ctx);
}

}  // namespace mtl
