#include "nn/chunk.h"

#include <optional>
#include <type_traits>

namespace mtl {

namespace {

template <class Layer>
typename Layer::Cache& cache_of(const Layer&, Chunk::UnitSlot& slot) {
  return std::get<typename Layer::Cache>(slot.cache);
}

}  // namespace

Chunk::Chunk(const GptConfig& config, const DropoutOptions& dropout, TpRegion around, ChunkRange range,
             std::int64_t padded_vocab_size)
    : range_(range), hidden_(config.hidden_size), region_(around) {
  if (range.first) parts_.push_back({EmbeddingLayer(config, dropout, around, padded_vocab_size), {}});
  for (std::int64_t layer = 0; layer < range.num_layers; ++layer)
    parts_.push_back({Block(config, dropout, around, range.first_layer + layer), {}});
  if (!range.last) return;
  std::optional<ParamSpec> table_copy;
  if (!range.first) table_copy = token_table_spec(config, padded_vocab_size);
  parts_.push_back({Head(config, around, std::move(table_copy)), {}});
}

void Chunk::params(const ParamVisitor& visit) {
  int number = static_cast<int>(range_.first_layer) + (range_.first ? 0 : 1);
  for (Part& part : parts_) {
    std::optional<int> first;
    ParamVisitor visit_and_note = [&](Param& param, ParamSpec spec) {
      spec.unit = number;
      visit(param, spec);
      if (!first) first = param.index;
      part.params = {*first, param.index + 1};
    };
    std::visit([&](auto& unit) { unit.params(visit_and_note); }, part.unit);
    ++number;
  }
  if (range_.first && range_.last)  // tied: bound to the same memory
    std::get<Head>(parts_.back().unit).output.table = std::get<EmbeddingLayer>(parts_.front().unit).tokens;
}

Chunk::Cache Chunk::make_cache() const { return make_cache({}); }

Chunk::Cache Chunk::make_cache(const std::vector<KvCache>& past) const {
  Cache cache;
  std::size_t layer = 0;
  for (const Part& part : parts_) {
    std::visit([&]<class Layer>(const Layer&) { cache.push_back({typename Layer::Cache{}, {}}); }, part.unit);
    auto* block = std::get_if<Block::Cache>(&cache.back().cache);
    if (block != nullptr && !past.empty()) block->attention.past = past.at(layer++);
  }
  return cache;
}

Shape Chunk::hidden_shape(const Ctx& ctx, const Batch& batch) const {
  return {region_.rows_outside(ctx, batch.tokens.numel()), hidden_};
}

Tensor Chunk::make_hidden(Ctx& ctx, const Batch& batch) const {
  return ctx.slot.make(DType::f32, hidden_shape(ctx, batch));
}

/// The first `end` units. In training every result and every cache stays in the slot; otherwise results take turns in
/// two buffers, and caches go at once.
Tensor Chunk::run_units(Ctx& ctx, Tensor x, Tensor losses, const Batch& batch, Cache& cache, std::size_t end) const {
  Tensor spare;
  for (std::size_t u = 0; u < end; ++u) {
    const Part& part = parts_[u];
    if (ctx.events != nullptr) ctx.events->acquire(part.params);
    bool is_head = std::holds_alternative<Head>(part.unit);
    Tensor y = is_head ? losses : spare.exists() ? spare : make_hidden(ctx, batch);
    std::optional<Arena::Mark> release;
    if (!ctx.training) release.emplace(ctx.slot);
    std::visit([&](const auto& unit) { unit.forward(ctx, x, y, batch, cache_of(unit, cache[u])); }, part.unit);
    if (!ctx.training) spare = x;
    x = is_head ? Tensor() : y;
  }
  return x;
}

Tensor Chunk::forward(Ctx& ctx, Tensor input, const Batch& batch, Cache& cache) const {
  return run_units(ctx, input, {}, batch, cache, parts_.size());
}

Tensor Chunk::evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const {
  return run_units(ctx, input, losses, batch, cache, parts_.size());
}

void Chunk::logits(Ctx& ctx, Tensor out, const Batch& batch, Cache& cache) const {
  Arena::Mark slot(ctx.slot);
  Tensor x = run_units(ctx, {}, {}, batch, cache, parts_.size() - 1);
  std::get<Head>(parts_.back().unit).logits(ctx, out, x, batch);
}

Tensor Chunk::backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache) const {
  Tensor dx = range_.last ? make_hidden(ctx, batch) : dout;
  for (std::size_t u = parts_.size(); u-- > 0;) {
    ctx.weight_grads = &cache[u].weight_grads;
    std::optional<Arena::Mark> release;
    if (!ctx.defers_weights) release.emplace(ctx.slot);
    std::visit(
        [&]<class Layer>(const Layer& unit) {
          if constexpr (std::is_same_v<Layer, Head>)
            unit.backward(ctx, dx, losses, batch, cache_of(unit, cache[u]));
          else
            unit.backward(ctx, dx, batch, cache_of(unit, cache[u]));
        },
        parts_[u].unit);
    if (ctx.defers_weights) continue;
    ctx.weight_grads->flush(ctx.stream);
    end_gradients(ctx, u);
  }
  return range_.first ? Tensor() : dx;
}

void Chunk::weights(Ctx& ctx, Cache& cache) const {
  for (std::size_t u = parts_.size(); u-- > 0;) {
    cache[u].weight_grads.flush(ctx.stream);
    end_gradients(ctx, u);
  }
}

void Chunk::end_gradients(const Ctx& ctx, std::size_t unit) const {
  if (ctx.events != nullptr && ctx.ends_gradients) ctx.events->gradients_ready(parts_[unit].params);
}

}  // namespace mtl
