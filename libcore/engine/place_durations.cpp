#include "engine/place_durations.h"

#include <map>

#include "engine/memory_plan.h"
#include "engine/meta_model.h"
#include "optim/optimizer.h"

namespace mtl {

namespace {

/// Returns the FLOPs of a micro-batch in one of the stage's chunks.
ActionDurations chunk_durations(MetaModel& model, const Chunk& chunk, const RunShape& shape) {
  const Batch batch = meta_batch(shape);
  const Tensor losses(nullptr, DType::f32, {shape.micro_batch, shape.rows_per_sequence()});
  const Tensor hidden(nullptr, chunk.hidden_dtype(), chunk.hidden_shape(model.groups, batch.tokens.numel()));
  Arena slot(Device::meta, "activations", 0), scratch(Device::meta, "scratch", 0);
  Ctx ctx{.stream = model.stream, .slot = &slot, .scratch = scratch, .groups = model.groups, .training = true};
  ctx.defers_weights = true;
  Chunk::Cache cache = chunk.make_cache();
  model.params.begin_step();
  const auto flops = [&](const auto& pass) { return model.count(pass).work.flops; };
  ActionDurations out;
  out.forward = flops([&] { chunk.forward(ctx, chunk.range().has_embedding ? Tensor() : hidden, batch, cache); });
  out.backward = flops([&] { chunk.backward(ctx, hidden, losses, batch, cache); });
  out.weight = flops([&] { chunk.weights(ctx, cache); });
  return out;
}

}  // namespace

std::vector<ActionDurations> place_durations(const GptConfig& config, const DropoutOptions& dropout, RunShape shape) {
  shape.offloaded_layers = 0;  // costs no FLOPs
  const Places places = shape.layout.places();
  std::map<ChunkKind, ActionDurations> known;
  std::vector<ActionDurations> out(static_cast<std::size_t>(places.count()));
  for (int stage = 0; stage < places.stages; ++stage) {
    shape.layout.rank = shape.layout.grid.rank_at({.pipeline = stage});
    const std::vector<ChunkKind> kinds = stage_kind(config, shape.layout);
    std::unique_ptr<MetaModel> model;
    for (int chunk = 0; chunk < places.chunks; ++chunk) {
      const auto [at, is_new] = known.try_emplace(kinds[chunk]);
      if (is_new) {
        if (model == nullptr) model = std::make_unique<MetaModel>(config, dropout, shape);
        at->second = chunk_durations(*model, model->stage.chunks[chunk], shape);
      }
      out[places.position_of({stage, chunk})] = at->second;
    }
  }
  return out;
}

}  // namespace mtl
