// Configures small models.
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

/// Llama: RMSNorm, rotary positions, two query groups, a gated MLP, no biases, an untied output layer.
inline GptConfig llama_of_size(const GptSizes& sizes) {
  GptConfig config = gpt_of_size(sizes, false);
  config.norm = Norm::rmsnorm;
  config.position_embedding = PositionEmbedding::rotary;
  config.num_query_groups = 2;
  config.activation = Activation::silu;
  config.gated_mlp = true;
  config.tied_embeddings = false;
  return config;
}

/// Qwen: Llama with query, key and value biases, normalized queries and keys, and a tied output layer.
inline GptConfig qwen_of_size(const GptSizes& sizes) {
  GptConfig config = llama_of_size(sizes);
  config.bias.qkv = config.qk_norm = config.tied_embeddings = true;
  return config;
}

/// GPT-NeoX: LayerNorm, biases, a parallel residual, rotation of a quarter of each head, an untied output layer.
inline GptConfig neox_of_size(const GptSizes& sizes) {
  GptConfig config = gpt_of_size(sizes);
  config.position_embedding = PositionEmbedding::rotary;
  config.rotary.percent = 0.25;
  config.parallel_residual = true;
  config.tied_embeddings = false;
  return config;
}

}  // namespace mtl::test
