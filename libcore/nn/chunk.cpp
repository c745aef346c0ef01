#include "nn/chunk.h"

#include "kernels/elementwise.h"

namespace mtl {

Chunk::Chunk(const GptConfig& config, const DropoutOptions& dropout, ChunkRange range, std::int64_t padded_vocab_size)
    : range_(range), hidden_(config.hidden_size) {
  require(range.first && range.last, "a chunk without embedding or output layer needs a pipeline");
  embedding_ = EmbeddingLayer(config, dropout, padded_vocab_size);
  for (std::int64_t layer = 0; layer < range.num_layers; ++layer)
    blocks_.emplace_back(config, dropout, range.first_layer + layer);
  final_norm_ = NormLayer(config);
  head_.vocab = config.vocab_size;
}

void Chunk::params(const ParamVisitor& visit) {
  embedding_.params(visit);
  for (Block& block : blocks_) block.params(visit);
  final_norm_.params(visit, "final_norm");
  head_.table = embedding_.tokens;  // tied: bound to the same memory
}

void Chunk::forward(Ctx& ctx, Tensor losses, const Batch& batch, Cache& cache) const {
  cache.blocks.resize(blocks_.size());
  Tensor x = ctx.slot.make({batch.tokens.size(0), batch.tokens.size(1), hidden_});
  embedding_.forward(ctx, x, batch);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    x = blocks_[layer].forward(ctx, x, batch, cache.blocks[layer]);
  cache.dx = ctx.slot.like(x);
  Tensor normed = final_norm_.forward(ctx, x, cache.final_norm);
  Arena::Mark scratch(ctx.scratch);
  Tensor dnormed = ctx.scratch.like(x);
  head_.loss_and_gradient(ctx, losses, dnormed, normed, batch);
  fill_zero(ctx.stream, cache.dx);
  final_norm_.backward(ctx, cache.dx, dnormed, cache.final_norm);
}

void Chunk::backward(Ctx& ctx, const Batch& batch, Cache& cache) const {
  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    Arena::Mark slot(ctx.slot);
    blocks_[layer].backward(ctx, cache.dx, batch, cache.blocks[layer]);
    ctx.weight_grads.flush(ctx.stream);
  }
  embedding_.backward(ctx, cache.dx, batch);
}

Tensor Chunk::hidden_without_cache(Ctx& ctx, const Batch& batch) const {
  Tensor x = ctx.slot.make({batch.tokens.size(0), batch.tokens.size(1), hidden_});
  embedding_.forward(ctx, x, batch);
  for (const Block& block : blocks_) {
    Arena::Mark slot(ctx.slot);
    Block::Cache unused;
    copy(ctx.stream, x, block.forward(ctx, x, batch, unused));
  }
  NormLayer::Cache unused;
  return final_norm_.forward(ctx, x, unused);
}

void Chunk::evaluate(Ctx& ctx, Tensor losses, const Batch& batch) const {
  Arena::Mark slot(ctx.slot);
  head_.loss(ctx, losses, hidden_without_cache(ctx, batch), batch);
}

void Chunk::logits(Ctx& ctx, Tensor out, const Batch& batch) const {
  Arena::Mark slot(ctx.slot);
  head_.logits(ctx, out, hidden_without_cache(ctx, batch));
}

void Chunk::logits_cached(Ctx& ctx, Tensor out, const Batch& batch, const std::vector<KvCache>& caches) const {
  Arena::Mark slot(ctx.slot);
  std::int64_t sequences = batch.tokens.size(0), positions = batch.tokens.size(1);
  Tensor x = ctx.slot.make({sequences, positions, hidden_});
  embedding_.forward(ctx, x, batch);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) blocks_[layer].forward_cached(ctx, x, caches[layer]);
  Tensor last = ctx.slot.make({sequences, hidden_});
  for (std::int64_t b = 0; b < sequences; ++b)
    copy(ctx.stream, last.rows(b, 1), x.view({sequences * positions, hidden_}).rows((b + 1) * positions - 1, 1));
  NormLayer::Cache unused;
  head_.logits(ctx, out, final_norm_.forward(ctx, last, unused));
}

}  // namespace mtl
