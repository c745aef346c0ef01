#include "nn/embedding_layer.h"

namespace mtl {

EmbeddingLayer::EmbeddingLayer(const GptConfig& config, const DropoutOptions& options, std::int64_t padded_vocab_size)
    : vocab(config.vocab_size),
      padded_vocab(padded_vocab_size),
      positions(config.max_positions),
      hidden(config.hidden_size),
      init_std(static_cast<float>(config.init_std)),
      dropout(dropout_at(options, DropoutSite::embedding, 0)) {}

void EmbeddingLayer::params(const ParamVisitor& visit) {
  visit(tokens, {.name = "embedding.tokens.weight",
                 .shape = {vocab, hidden},
                 .shard_axis = 0,
                 .padded_rows = padded_vocab,
                 .grad_group = GradGroup::data_and_tied,
                 .init_std = init_std});
  visit(position_table, {.name = "embedding.positions.weight", .shape = {positions, hidden}, .init_std = init_std});
}

namespace {

/// The rows of the table that this rank holds begin here.
EmbeddingInput rows_of(const Ctx& ctx, const Param& tokens, const Batch& batch) {
  return {batch.tokens, batch.positions, ctx.groups.tensor->rank() * tokens.value.size(0)};
}

Dropout active(Dropout dropout, const Ctx& ctx) {
  dropout.state = ctx.state;
  if (!ctx.training) dropout.probability = 0;
  return dropout;
}

}  // namespace

void EmbeddingLayer::forward(Ctx& ctx, Tensor out, const Batch& batch) const {
  embedding_forward(ctx.stream, out, rows_of(ctx, tokens, batch), tokens.value, position_table.value,
                    active(dropout, ctx));
}

void EmbeddingLayer::backward(Ctx& ctx, Tensor dout, const Batch& batch) const {
  embedding_backward(ctx.stream, tokens.take_grad(), position_table.take_grad(), dout, rows_of(ctx, tokens, batch),
                     active(dropout, ctx));
}

}  // namespace mtl
