// Configurations of small models.
#pragma once

#include <cstdint>

#include "nn/gpt_config.h"

namespace mtl::test {

struct GptSizes {
  std::int64_t vocab, layers, hidden, heads, positions;
};

inline GptConfig gpt_of_size(const GptSizes& sizes, bool bias = true) {
  GptConfig config;
  config.vocab_size = sizes.vocab;
  config.num_layers = sizes.layers;
  config.hidden_size = sizes.hidden;
  config.num_heads = sizes.heads;
  config.max_positions = sizes.positions;
  config.bias = {bias, bias, bias};
  config.complete();
  return config;
}

}  // namespace mtl::test
