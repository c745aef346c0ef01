#include "engine/stage.h"

#include "layout/stages.h"

namespace mtl {

Stage whole_model(const GptConfig& config, const DropoutOptions& dropout, std::int64_t padded_vocab_size,
                  DType residual) {
  return make_stage(config, dropout, {}, padded_vocab_size, residual);
}

Stage make_stage(const GptConfig& config, const DropoutOptions& dropout, const Layout& layout,
                 std::int64_t padded_vocab_size, DType residual) {
  Stage stage;
  TpRegion region{layout.sequence_parallel && layout.size(Axis::tensor) > 1};
  const std::vector<LayerRange> own = split_layers(layout, config.num_layers)[layout.stage()];
  for (std::size_t c = 0; c < own.size(); ++c) {
    ChunkRange range{.first_layer = own[c].first,
                     .num_layers = own[c].count,
                     .has_embedding = layout.stage() == 0 && c == 0,
                     .has_head = layout.stage() == layout.stages() - 1 && c + 1 == own.size()};
    stage.chunks.emplace_back(config, dropout, region, range, padded_vocab_size, layout.recompute, residual,
                              layout.offloaded_layers);
  }
  return stage;
}

}  // namespace mtl
