#include "engine/stage.h"

namespace mtl {

Stage whole_model(const GptConfig& config, const DropoutOptions& dropout, std::int64_t padded_vocab_size) {
  Stage stage;
  stage.chunks.emplace_back(config, dropout, ChunkRange{0, config.num_layers, true, true}, padded_vocab_size);
  return stage;
}

}  // namespace mtl
