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
  if (range.first) units_.emplace_back(EmbeddingLayer(config, dropout, around, padded_vocab_size));
  for (std::int64_t layer = 0; layer < range.num_layers; ++layer)
    units_.emplace_back(Block(config, dropout, around, range.first_layer + layer));
  if (!range.last) return;
  std::optional<ParamSpec> table_copy;
  if (!range.first) table_copy = token_table_spec(config, padded_vocab_size);
  units_.emplace_back(Head(config, around, std::move(table_copy)));
}

void Chunk::params(const ParamVisitor& visit) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    ParamVisitor visit_numbered = [&](Param& param, ParamSpec spec) {
      spec.unit = number_of(u);
      visit(param, spec);
    };
    std::visit([&](auto& unit) { unit.params(visit_numbered); }, units_[u]);
  }
  if (range_.first && range_.last)  // tied: bound to the same memory
    std::get<Head>(units_.back()).output.table = std::get<EmbeddingLayer>(units_.front()).tokens;
}

Chunk::Cache Chunk::make_cache() const { return make_cache({}); }

Chunk::Cache Chunk::make_cache(const std::vector<KvCache>& past) const {
  Cache cache;
  std::size_t layer = 0;
  for (const Unit& unit : units_) {
    std::visit([&]<class Layer>(const Layer&) { cache.push_back({typename Layer::Cache{}, {}}); }, unit);
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
    const Unit& unit = units_[u];
    const Leases values = lease(ctx, Role::values, u);
    bool is_head = std::holds_alternative<Head>(unit);
    Tensor y = is_head ? losses : spare.exists() ? spare : make_hidden(ctx, batch);
    std::optional<Arena::Mark> release;
    if (!ctx.training) release.emplace(ctx.slot);
    std::visit([&](const auto& unit) { unit.forward(ctx, x, y, batch, cache_of(unit, cache[u])); }, unit);
    if (!ctx.training) spare = x;
    x = is_head ? Tensor() : y;
  }
  return x;
}

Tensor Chunk::forward(Ctx& ctx, Tensor input, const Batch& batch, Cache& cache) const {
  return run_units(ctx, input, {}, batch, cache, units_.size());
}

Tensor Chunk::evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const {
  return run_units(ctx, input, losses, batch, cache, units_.size());
}

void Chunk::logits(Ctx& ctx, Tensor out, const Batch& batch, Cache& cache) const {
  Arena::Mark slot(ctx.slot);
  Tensor x = run_units(ctx, {}, {}, batch, cache, units_.size() - 1);
  const Leases values = lease(ctx, Role::values, units_.size() - 1);
  std::get<Head>(units_.back()).logits(ctx, out, x, batch);
}

Tensor Chunk::backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache) const {
  Tensor dx = range_.last ? make_hidden(ctx, batch) : dout;
  for (std::size_t u = units_.size(); u-- > 0;) {
    const Leases values = lease(ctx, Role::values, u), gradients = lease(ctx, Role::gradients, u);
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
        units_[u]);
    if (ctx.defers_weights) continue;
    ctx.weight_grads->flush(ctx.stream, ctx.scratch);
    end_gradients(ctx, u);
  }
  return range_.first ? Tensor() : dx;
}

void Chunk::weights(Ctx& ctx, Cache& cache) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    const Leases gradients = lease(ctx, Role::gradients, u);
    cache[u].weight_grads.flush(ctx.stream, ctx.scratch);
    end_gradients(ctx, u);
  }
}

/// Of the unit's own parameters, and of the embedding's for a head that shares the token table.
Chunk::Leases Chunk::lease(const Ctx& ctx, Role role, std::size_t unit) const {
  Leases leases;
  if (ctx.params == nullptr) return leases;
  leases[0] = ctx.params->acquire(role, number_of(unit));
  if (range_.first && range_.last && unit + 1 == units_.size()) leases[1] = ctx.params->acquire(role, number_of(0));
  return leases;
}

void Chunk::end_gradients(const Ctx& ctx, std::size_t unit) const {
  if (ctx.params != nullptr && ctx.ends_gradients) ctx.params->gradients_ready(number_of(unit));
}

}  // namespace mtl
