#include "nn/attention_layer.h"

#include <cmath>

#include "kernels/gemm.h"

namespace mtl {

AttentionLayer::AttentionLayer(const GptConfig& config, Dropout probability_dropout)
    : hidden(config.hidden_size),
      heads(config.num_heads),
      groups(config.num_query_groups),
      head_dim(config.head_dim),
      init_std(static_cast<float>(config.init_std)),
      output_init_std(static_cast<float>(config.init_std / std::sqrt(2.0 * static_cast<double>(config.num_layers)))),
      dropout(probability_dropout) {}

void AttentionLayer::params(const ParamVisitor& visit, const std::string& prefix) {
  std::int64_t per_group = heads / groups + 2;
  visit(qkv, {.name = prefix + ".qkv.weight",
              .shape = {groups, per_group, head_dim, hidden},
              .shard_axis = 0,
              .init_std = init_std});
  visit(qkv_bias, {.name = prefix + ".qkv.bias",
                   .shape = {groups, per_group, head_dim},
                   .shard_axis = 0,
                   .decays = false,
                   .init = Init::zeros});
  visit(out, {.name = prefix + ".out.weight",
              .shape = {hidden, heads * head_dim},
              .shard_axis = 1,
              .init_std = output_init_std});
  visit(out_bias, {.name = prefix + ".out.bias", .shape = {hidden}, .decays = false, .init = Init::zeros});
}

AttentionInput AttentionLayer::input(Tensor packed, const Batch& batch, bool training, const StepState* state) const {
  AttentionInput in;
  in.qkv = packed;
  in.document_start = batch.document_start;
  in.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  in.dropout = dropout;
  in.dropout.state = state;
  if (!training) in.dropout.probability = 0;
  return in;
}

Tensor AttentionLayer::project_qkv(Ctx& ctx, Arena& memory, Tensor x) const {
  Tensor full = region.enter(ctx, x);
  std::int64_t local_groups = qkv.value.size(0), per_group = qkv.value.size(1),
               width = local_groups * per_group * head_dim;
  Tensor packed = memory.make({x.size(0), x.size(1), local_groups, per_group, head_dim});
  gemm(ctx.stream, packed.view({x.row_count(), width}), {full}, transposed(qkv.value.view({width, hidden})),
       GradMode::overwrite, {.bias = qkv_bias.value.view({width})});
  return packed;
}

Tensor AttentionLayer::project_out(Ctx& ctx, Tensor attended) const {
  std::int64_t batch = attended.size(0), positions = attended.size(1), width = out.value.size(1);
  Tensor partial = ctx.scratch.make({batch, positions, hidden});
  gemm(ctx.stream, partial, {attended.view({batch * positions, width})}, transposed(out.value));
  return region.leave(ctx, partial);
}

Tensor AttentionLayer::forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const {
  cache.x = x;
  cache.qkv = project_qkv(ctx, ctx.slot, x);
  std::int64_t local_heads = cache.qkv.size(2) * (heads / groups);
  cache.attended = ctx.slot.make({x.size(0), x.size(1), local_heads, head_dim});
  cache.logsumexp = ctx.slot.make({x.size(0), local_heads, x.size(1)});
  attention_forward(ctx.stream, ctx.scratch, cache.attended, cache.logsumexp,
                    input(cache.qkv, batch, ctx.training, ctx.state));
  return project_out(ctx, cache.attended);
}

Tensor AttentionLayer::backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const {
  std::int64_t rows = dy.row_count(), width = qkv.value.numel() / hidden;
  Tensor full_dy = region.leave_backward(ctx, dy);
  Tensor attended = cache.attended.view({rows, out.value.size(1)});
  Tensor dattended = ctx.scratch.like(cache.attended);
  gemm(ctx.stream, dattended.view(attended.shape()), {full_dy}, {out.value});
  ctx.weight_grads.push(out, full_dy, attended);
  Tensor dqkv = ctx.slot.like(cache.qkv);
  attention_backward(ctx.stream, ctx.scratch, dqkv, dattended, cache.attended, cache.logsumexp,
                     input(cache.qkv, batch, ctx.training, ctx.state));
  Tensor dpacked = dqkv.view({rows, width});
  Tensor dx = ctx.scratch.like(full_dy);
  gemm(ctx.stream, dx, {dpacked}, {qkv.value.view({width, hidden})});
  Pending sum = region.enter_backward(ctx, dx);
  ctx.weight_grads.push(qkv, dpacked, region.enter(ctx, cache.x), qkv_bias);
  return sum.wait();
}

Tensor AttentionLayer::forward_cached(Ctx& ctx, Tensor x, const KvCache& kv) const {
  Tensor packed = project_qkv(ctx, ctx.scratch, x);
  std::int64_t local_heads = packed.size(2) * (heads / groups);
  Tensor attended = ctx.scratch.make({x.size(0), x.size(1), local_heads, head_dim});
  attention_cached(ctx.stream, ctx.scratch, attended, input(packed, {}, false, ctx.state), kv);
  return project_out(ctx, attended);
}

}  // namespace mtl
