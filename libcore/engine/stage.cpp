#include "engine/stage.h"

#include "layout/stages.h"

namespace mtl {

namespace {

/// Returns the layers of each of the stage's chunks.
std::vector<ChunkRange> chunk_ranges(const Layout& layout, std::int64_t layers) {
  const std::vector<LayerRange> own = split_layers(layout, layers)[layout.stage()];
  const Places places = layout.places();
  std::vector<ChunkRange> out;
  for (const LayerRange& range : own) {
    const Place place{layout.stage(), static_cast<int>(out.size())};
    out.push_back({.first_layer = range.first,
                   .num_layers = range.count,
                   .has_embedding = places.begins_model(place),
                   .has_head = places.ends_model(place)});
  }
  return out;
}

}  // namespace

void Stage::params(const ParamVisitor& visit) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    chunks[c].params([&](Param& param, ParamSpec spec) {
      spec.chunk = static_cast<int>(c);
      visit(param, spec);
    });
  }
}

std::vector<ChunkKind> stage_kind(const GptConfig& config, const Layout& layout) {
  std::vector<ChunkKind> out;
  for (const ChunkRange& range : chunk_ranges(layout, config.num_layers)) {
    out.push_back({.has_embedding = range.has_embedding, .has_head = range.has_head, .windows = {}});
    for (std::int64_t layer = 0; layer < range.num_layers; ++layer)
      out.back().windows.push_back(config.window_of(range.first_layer + layer));
  }
  return out;
}

Stage make_stage(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  const Layout& layout = shape.layout;
  Stage stage{.chunks = {}, .places = layout.places(), .number = layout.stage()};
  const ModelBuild build{.config = config,
                         .dropout = dropout,
                         .padded_vocab = shape.padded_vocab,
                         .residual = shape.precision.residual,
                         .logits = shape.precision.logits,
                         .region = {layout.sequence_parallel && layout.size(Axis::tensor) > 1},
                         .context = {layout.context_exchange},
                         .recompute = shape.recompute,
                         .offloaded_layers = shape.offloaded_layers};
  for (const ChunkRange& range : chunk_ranges(layout, config.num_layers)) stage.chunks.emplace_back(build, range);
  return stage;
}

}  // namespace mtl
