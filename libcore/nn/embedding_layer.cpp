#include "nn/embedding_layer.h"

namespace mtl {

ParamSpec token_table_spec(const GptConfig& config, std::int64_t padded_vocab_size) {
  return {.name = "embedding.tokens.weight",
          .shape = {config.vocab_size, config.hidden_size},
          .ownership = {.shards = {{0, Axis::tensor}}, .on_end_stages = config.tied_embeddings},
          .padded_rows = padded_vocab_size,
          .use = ParamUse::token_table,
          .init_std = static_cast<float>(config.init_std)};
}

ParamSpec output_table_spec(const GptConfig& config, std::int64_t padded_vocab_size) {
  ParamSpec spec = token_table_spec(config, padded_vocab_size);
  spec.name = "output.weight";
  return spec;
}

EmbeddingLayer::EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, TpRegion tp_region,
                               std::int64_t padded_vocab_size)
    : token_spec(token_table_spec(config, padded_vocab_size)),
      region(tp_region),
      dropout(dropout_at(options, DropoutSite::embedding, 0)) {
  if (config.is_rotary()) return;
  position_spec = {.name = "embedding.positions.weight",
                   .shape = {config.max_positions, config.hidden_size},
                   .ownership = region.outside(),
                   .use = ParamUse::position_table,
                   .init_std = float(config.init_std)};
}

void EmbeddingLayer::params(const ParamVisitor& visit) {
  visit(tokens, token_spec);
  if (position_spec) visit(position_table, *position_spec);
}

namespace {

/// Returns the first table row on this rank.
std::int64_t vocab_begin(const Ctx& ctx, const Param& tokens) {
  return ctx.groups.over(Axis::tensor).rank() * tokens.value.size(0);
}

Tensor flat_tokens(const Batch& batch) { return batch.tokens.view({batch.tokens.numel()}); }

}  // namespace

void EmbeddingLayer::forward(Ctx& ctx, Tensor, Tensor y, const Batch& batch, Cache&) const {
  Arena::Mark scratch(ctx.scratch);
  Tensor partial = region.partial_of(ctx, y);
  embedding_forward(ctx.stream, partial, flat_tokens(batch), vocab_begin(ctx, tokens), tokens.value);
  region.leave(ctx, y, partial);
  positions_forward(ctx.stream, y, batch.positions, position_table.value, dropout_in(ctx, dropout),
                    region.map_outside(ctx, batch.rows(), y.size(0)));
}

void EmbeddingLayer::backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache&) const {
  Arena::Mark scratch(ctx.scratch);
  positions_backward(ctx.stream, ctx.scratch, position_table.take_grad(), dy, batch.positions, dropout_in(ctx, dropout),
                     region.map_outside(ctx, batch.rows(), dy.size(0)));
  embedding_backward(ctx.stream, ctx.scratch, tokens.take_grad(), region.enter(ctx, ctx.scratch, dy),
                     flat_tokens(batch), vocab_begin(ctx, tokens));
}

}  // namespace mtl
