#include "nn/chunk.h"

#include "kernels/elementwise.h"

namespace mtl {

Chunk::Chunk(const GptConfig& config, const DropoutOptions& dropout, TpRegion around, ChunkRange range,
             std::int64_t padded_vocab_size)
    : range_(range),
      hidden_(config.hidden_size),
      region_(around),
      table_copy_spec_(token_table_spec(config, padded_vocab_size)) {
  if (range.first) embedding_ = EmbeddingLayer(config, dropout, around, padded_vocab_size);
  for (std::int64_t layer = 0; layer < range.num_layers; ++layer)
    blocks_.emplace_back(config, dropout, around, range.first_layer + layer);
  if (!range.last) return;
  final_norm_ = NormLayer(config, around);
  head_.vocab = config.vocab_size;
  head_.region = around;
}

void Chunk::params(const ParamVisitor& visit) {
  if (range_.first) embedding_.params(visit);
  for (Block& block : blocks_) block.params(visit);
  if (!range_.last) return;
  final_norm_.params(visit, "final_norm");
  if (range_.first)
    head_.table = embedding_.tokens;  // tied: bound to the same memory
  else
    visit(head_.table, table_copy_spec_);
}

Tensor Chunk::make_hidden(Ctx& ctx, const Batch& batch) const {
  return ctx.slot.make({region_.rows_outside(ctx, batch.tokens.numel()), hidden_});
}

namespace {

// Parameters are numbered in the order of visits, so a layer's are those from its first to its last.
void await(const Ctx& ctx, const Param& first, const Param& last) {
  if (ctx.events != nullptr) ctx.events->before_forward(first.index, last.index + 1);
}
void await(const Ctx& ctx, const Block& block) { await(ctx, block.norm1.gamma, block.mlp.down_bias); }

void finish(const Ctx& ctx, const Param& first, const Param& last) {
  if (ctx.events != nullptr && ctx.last_micro_batch) ctx.events->gradients_final(first.index, last.index + 1);
}
void finish(const Ctx& ctx, const Block& block) { finish(ctx, block.norm1.gamma, block.mlp.down_bias); }

}  // namespace

Tensor Chunk::forward(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const {
  cache.blocks.resize(blocks_.size());
  if (range_.first) await(ctx, embedding_.tokens, embedding_.position_table);
  Tensor x = range_.first ? embedding_.forward(ctx, batch) : input;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    await(ctx, blocks_[layer]);
    x = blocks_[layer].forward(ctx, x, batch, cache.blocks[layer]);
  }
  if (!range_.last) return x;
  await(ctx, final_norm_.gamma, range_.first ? final_norm_.beta : head_.table);
  cache.dx = ctx.slot.like(x);
  Tensor normed = final_norm_.forward(ctx, x, cache.final_norm);
  Arena::Mark scratch(ctx.scratch);
  Tensor dnormed = ctx.scratch.like(x);
  head_.loss_and_gradient(ctx, losses, dnormed, normed, batch);
  fill_zero(ctx.stream, cache.dx);
  final_norm_.backward(ctx, cache.dx, dnormed, cache.final_norm);
  return {};
}

Tensor Chunk::backward(Ctx& ctx, Tensor dout, const Batch& batch, Cache& cache) const {
  Tensor dx = range_.last ? cache.dx : dout;
  if (range_.last) finish(ctx, final_norm_.gamma, range_.first ? final_norm_.beta : head_.table);
  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    Arena::Mark slot(ctx.slot);
    blocks_[layer].backward(ctx, dx, batch, cache.blocks[layer]);
    ctx.weight_grads.flush(ctx.stream);
    finish(ctx, blocks_[layer]);
  }
  if (!range_.first) return dx;
  embedding_.backward(ctx, dx, batch);
  finish(ctx, embedding_.tokens, embedding_.position_table);
  return {};
}

Tensor Chunk::hidden_without_cache(Ctx& ctx, Tensor input, const Batch& batch) const {
  if (range_.first) await(ctx, embedding_.tokens, embedding_.position_table);
  Tensor x = range_.first ? embedding_.forward(ctx, batch) : input;
  for (const Block& block : blocks_) {
    await(ctx, block);
    Arena::Mark slot(ctx.slot);
    Block::Cache unused;
    copy(ctx.stream, x, block.forward(ctx, x, batch, unused));
  }
  if (!range_.last) return x;
  await(ctx, final_norm_.gamma, range_.first ? final_norm_.beta : head_.table);
  NormLayer::Cache unused;
  return final_norm_.forward(ctx, x, unused);
}

Tensor Chunk::evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch) const {
  Tensor x = hidden_without_cache(ctx, input, batch);
  if (!range_.last) return x;
  head_.loss(ctx, losses, x, batch);
  return {};
}

void Chunk::logits(Ctx& ctx, Tensor out, const Batch& batch) const {
  Arena::Mark slot(ctx.slot);
  head_.logits(ctx, out, hidden_without_cache(ctx, {}, batch));
}

void Chunk::logits_cached(Ctx& ctx, Tensor out, const Batch& batch, const std::vector<KvCache>& caches) const {
  Arena::Mark slot(ctx.slot);
  std::int64_t sequences = batch.tokens.size(0), positions = batch.tokens.size(1);
  Tensor x = embedding_.forward(ctx, batch);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) blocks_[layer].forward_cached(ctx, x, caches[layer]);
  Tensor last = ctx.slot.make({sequences, hidden_});
  for (std::int64_t b = 0; b < sequences; ++b) copy(ctx.stream, last.rows(b, 1), x.rows((b + 1) * positions - 1, 1));
  NormLayer::Cache unused;
  head_.logits(ctx, out, final_norm_.forward(ctx, last, unused));
}

}  // namespace mtl
