#include "engine/stage.h"

namespace mtl {

Stage whole_model(const GptConfig& config, const DropoutOptions& dropout, std::int64_t padded_vocab_size) {
  return make_stage(config, dropout, {}, padded_vocab_size);
}

Stage make_stage(const GptConfig& config, const DropoutOptions& dropout, const Placement& placement,
                 std::int64_t padded_vocab_size) {
  Stage stage;
  TpRegion region{placement.sequence_parallel && placement.size(Axis::tensor) > 1};
  const std::vector<LayerRange> own = placement.split(config.num_layers)[static_cast<std::size_t>(placement.stage())];
  for (std::size_t c = 0; c < own.size(); ++c) {
    ChunkRange range{own[c].first, own[c].count, placement.stage() == 0 && c == 0,
                     placement.stage() == placement.stages() - 1 && c + 1 == own.size()};
    stage.chunks.emplace_back(config, dropout, region, range, padded_vocab_size);
  }
  return stage;
}

}  // namespace mtl
