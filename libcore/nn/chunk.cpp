#include "nn/chunk.h"

#include <algorithm>
#include <type_traits>

namespace mtl {

namespace {

template <class Layer>
typename Layer::Cache& cache_of(const Layer&, Chunk::UnitSlot& slot) {
  return std::get<typename Layer::Cache>(slot.cache);
}

}  // namespace

Chunk::Chunk(const ModelBuild& build, ChunkRange range)
    : range_(range), hidden_(build.config.hidden_size), residual_(build.residual), region_(build.region) {
  const GptConfig& config = build.config;
  if (config.is_rotary()) {
    frequencies_ = rotary_frequencies(config, config.max_positions);
    if (config.depends_on_length()) changing_rotary_ = config;
  }
  if (range.has_embedding) units_.emplace_back(EmbeddingLayer(config, build.dropout, build.region, build.padded_vocab));
  for (std::size_t u = 0; u < units_.size(); ++u) spans_.push_back({u, u + 1});
  if (build.offloaded_layers > 0) {
    const std::int64_t max_offloaded = range.num_layers - kResidentLayers;
    offloaded_ = std::min(build.offloaded_layers, max_offloaded);
    if (max_offloaded < 1 || (build.offloaded_layers != kAllLayers && build.offloaded_layers > max_offloaded))
      fail(Exit::usage, "a chunk of ", range.num_layers, " layers can offload at most ",
           std::max<std::int64_t>(0, max_offloaded));
  }
  for (const LayerGroup& group : recompute_groups(build.recompute, range.num_layers)) {
    const std::size_t begin = units_.size();
    for (std::int64_t layer = group.first; layer < group.first + group.count; ++layer)
      units_.emplace_back(Block(build, range.first_layer + layer));
    spans_.push_back({begin, units_.size(), group.is_recomputed});
    if (build.offloaded_layers > 0 && group.first < offloaded_ + kResidentLayers) {
      require(!group.is_recomputed, "a layer that is recomputed keeps nothing to offload");
      spans_.back().offloaded = static_cast<int>(group.first);
    }
  }
  if (!range.has_head) return;
  std::optional<ParamSpec> own_table;
  if (!config.tied_embeddings)
    own_table = output_table_spec(config, build.padded_vocab);
  else if (!range.has_embedding)
    own_table = token_table_spec(config, build.padded_vocab);
  spans_.push_back({units_.size(), units_.size() + 1});
  units_.emplace_back(Head(build, std::move(own_table)));
}

void Chunk::params(const ParamVisitor& visit) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    ParamVisitor visit_numbered = [&](Param& param, ParamSpec spec) {
      spec.unit = number_of(u);
      visit(param, spec);
    };
    std::visit([&](auto& unit) { unit.params(visit_numbered); }, units_[u]);
  }
  if (shares_table())  // the head uses the embedding's table
    std::get<Head>(units_.back()).output.table = std::get<EmbeddingLayer>(units_.front()).tokens;
}

/// Returns true if the head uses this chunk's token embedding.
bool Chunk::shares_table() const { return range_.has_head && std::get<Head>(units_.back()).shares_table(); }

Chunk::Cache Chunk::make_cache(const std::vector<KvCache>& past) const {
  Cache cache;
  std::size_t layer = 0;
  for (const Unit& unit : units_) {
    std::visit([&]<class Layer>(const Layer&) { cache.units.push_back({typename Layer::Cache{}, {}}); }, unit);
    auto* block = std::get_if<Block::Cache>(&cache.units.back().cache);
    if (block != nullptr && !past.empty()) block->attention.past = past.at(layer++);
  }
  return cache;
}

Shape Chunk::hidden_shape(const ProcessGroups& groups, std::int64_t tokens) const {
  return {region_.rows_outside(groups, tokens), hidden_};
}

Tensor Chunk::make_hidden(Ctx& ctx, const Batch& batch) const {
  return ctx.slot->make(residual_, hidden_shape(ctx.groups, batch.tokens.numel()));
}

/// Adds rotary angles to the batch. They stay in the slot for backward.
Batch Chunk::with_angles(Ctx& ctx, Batch batch, Cache& cache) const {
  if (frequencies_.pairs == 0) return batch;
  const RotaryFrequencies frequencies =
      changing_rotary_ ? rotary_frequencies(*changing_rotary_, batch.sequence_length()) : frequencies_;
  cache.rotary = ctx.slot->make(DType::f32, {batch.tokens.numel(), 2, frequencies.pairs});
  rotary_angles(ctx.stream, cache.rotary, batch.positions, frequencies);
  batch.rotary = cache.rotary;
  return batch;
}

/// Runs a span's units. Units up to `run_end` will run after them. The last unit of the span writes to `result`, if
/// given; the head writes its losses there. In training, all other results and all caches stay in the slot. In
/// evaluation, results alternate between two buffers, and each cache is released immediately.
Tensor Chunk::run_units(Ctx& ctx, Tensor x, Tensor result, const Batch& batch, Cache& cache, Span span,
                        std::size_t run_end) const {
  Tensor spare;
  for (std::size_t u = span.begin; u < span.end; ++u) {
    const Unit& unit = units_[u];
    const ProfileRange range = profiled(ctx, u);
    const Leases values = lease(ctx, Role::values, u, u + 1 < run_end ? std::optional(u + 1) : std::nullopt);
    const bool is_head = std::holds_alternative<Head>(unit),
               writes_result = is_head || (u + 1 == span.end && result.exists());
    Tensor y = writes_result ? result : spare.exists() ? spare : make_hidden(ctx, batch);
    std::optional<Arena::Mark> release;
    if (!ctx.training)
      release.emplace(*ctx.slot);
    else
      cache.units[u].input = x;
    std::visit([&](const auto& unit) { unit.forward(ctx, x, y, batch, cache_of(unit, cache.units[u])); }, unit);
    if (!ctx.training) spare = x;
    x = is_head ? Tensor() : y;
  }
  return x;
}

Tensor Chunk::forward(Ctx& ctx, Tensor input, const Batch& given, Cache& cache) const {
  const Batch batch = with_angles(ctx, given, cache);
  Tensor x = input;
  for (const Span& span : spans_) {
    const bool is_offloaded = span.offloaded >= 0;
    Tensor y = span.is_recomputed || is_offloaded ? make_hidden(ctx, batch) : Tensor();
    const std::size_t after_y = ctx.slot->used();
    if (is_offloaded) {
      Ctx offload_ctx = ctx;
      offload_ctx.slot = &ctx.offload->begin_forward(ctx.stream, span.offloaded);
      x = run_units(offload_ctx, x, y, batch, cache, span, units_.size());
      ctx.offload->end_forward(ctx.stream, span.offloaded);
    } else {
      x = run_units(ctx, x, y, batch, cache, span, units_.size());
    }
    if (span.is_recomputed) ctx.slot->release_to(after_y);
    cache.units[span.last()].slot_end = ctx.slot->used();
  }
  return x;
}

Tensor Chunk::evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& given, Cache& cache) const {
  const Batch batch = with_angles(ctx, given, cache);
  return run_units(ctx, input, range_.has_head ? losses : Tensor(), batch, cache, {0, units_.size()}, units_.size());
}

void Chunk::logits(Ctx& ctx, Tensor out, const Batch& given, Cache& cache) const {
  Arena::Mark slot(*ctx.slot);
  const Batch batch = with_angles(ctx, given, cache);
  Tensor x = run_units(ctx, {}, {}, batch, cache, {0, units_.size() - 1}, units_.size());
  const Leases values = lease(ctx, Role::values, units_.size() - 1, {});
  std::get<Head>(units_.back()).logits(ctx, out, x, batch);
}

/// Runs a unit's backward. `next` is the unit that runs after it, if any. `dout` is the gradient of the chunk's output.
/// It changes while gradients are still queued, because it receives the gradient of the chunk's input or the next
/// micro-batch's `dout`.
void Chunk::backward_unit(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache, std::size_t u,
                          std::optional<std::size_t> next) const {
  const ProfileRange range = profiled(ctx, u);
  const Leases values = lease(ctx, Role::values, u, next), gradients = lease(ctx, Role::gradients, u, {});
  ctx.weight_grads = &cache.units[u].weight_grads;
  std::optional<Arena::Mark> release;
  if (!ctx.defers_weights) release.emplace(*ctx.slot);
  const bool is_last = u + 1 == units_.size();
  const Tensor dx = u > 0 ? cache.units[u].input : range_.has_embedding ? Tensor() : dout;
  const Tensor dy = is_last ? dout : cache.units[u + 1].input;
  std::visit(
      [&]<class Layer>(const Layer& unit) {
        const typename Layer::Cache& own = cache_of(unit, cache.units[u]);
        if constexpr (std::is_same_v<Layer, Head>)
          unit.backward(ctx, dx, losses, batch, own);
        else if constexpr (std::is_same_v<Layer, Block>)
          unit.backward(ctx, dx, dy, !is_last, batch, own);
        else
          unit.backward(ctx, dy, batch, own);
      },
      units_[u]);
  if (ctx.defers_weights) return;
  ctx.compute_weight_grads();
  end_gradients(ctx, u);
}

Tensor Chunk::backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& given, Cache& cache) const {
  Batch batch = given;
  batch.rotary = cache.rotary;
  require(offloaded_ == 0 || !ctx.defers_weights, "deferred weight gradients cannot use offloaded activations");
  for (auto span = spans_.rbegin(); span != spans_.rend(); ++span) {
    if (!ctx.defers_weights) ctx.slot->release_to(cache.units[span->last()].slot_end);
    if (span->is_recomputed) run_units(ctx, cache.units[span->begin].input, {}, batch, cache, *span, span->end);
    if (span->offloaded >= 0) ctx.offload->begin_backward(ctx.stream, span->offloaded);
    for (std::size_t u = span->end; u-- > span->begin;) {
      std::optional<std::size_t> next;
      if (u > span->begin)
        next = u - 1;
      else if (const auto before = std::next(span); before != spans_.rend())
        next = before->is_recomputed ? before->begin : before->last();
      backward_unit(ctx, dout, losses, batch, cache, u, next);
    }
    if (span->offloaded >= 0) ctx.offload->end_backward(ctx.stream, span->offloaded);
  }
  return range_.has_embedding ? Tensor() : dout;
}

void Chunk::weights(Ctx& ctx, Cache& cache) const {
  for (std::size_t u = units_.size(); u-- > 0;) {
    const ProfileRange range = profiled(ctx, u);
    const Leases gradients = lease(ctx, Role::gradients, u, {});
    cache.units[u].weight_grads.flush(ctx.stream, ctx.scratch);
    end_gradients(ctx, u);
  }
}

/// Leases the unit's parameters. If a head shares the token table, also leases the embedding's parameters. `next` is
/// the unit whose parameters will be leased next.
Chunk::Leases Chunk::lease(const Ctx& ctx, Role role, std::size_t unit, std::optional<std::size_t> next) const {
  Leases leases;
  if (ctx.params == nullptr) return leases;
  leases[0] = ctx.params->acquire(role, number_of(unit), next ? std::optional(number_of(*next)) : std::nullopt);
  if (shares_table() && unit + 1 == units_.size()) leases[1] = ctx.params->acquire(role, number_of(0), {});
  return leases;
}

ProfileRange Chunk::profiled(const Ctx& ctx, std::size_t unit) const {
  const bool is_block = std::holds_alternative<Block>(units_[unit]);
  const char* name = is_block ? "layer" : std::holds_alternative<Head>(units_[unit]) ? "head" : "embedding";
  return {ctx.stream, ProfileKind::layer, name, is_block ? number_of(unit) - 1 : -1};
}

void Chunk::end_gradients(const Ctx& ctx, std::size_t unit) const {
  if (ctx.params != nullptr) ctx.params->gradients_done(number_of(unit), ctx.ends_gradients);
}

}  // namespace mtl
