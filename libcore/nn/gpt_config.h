// What a GPT is made of. Every choice of architecture has a name here; this version builds GPT-2's and refuses the
// rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

enum class Norm { layernorm, rmsnorm };
enum class Activation { gelu_tanh, gelu_erf, swiglu };
enum class PositionEmbedding { learned, rotary };

struct GptConfig {
  std::int64_t vocab_size = 0;        // V: true size; rows beyond it in memory are padding and never take part
  std::int64_t num_layers = 0;        // L
  std::int64_t hidden_size = 0;       // C
  std::int64_t num_heads = 0;         // H
  std::int64_t num_query_groups = 0;  // G: key/value heads; H for GPT-2
  std::int64_t head_dim = 0;          // D; C / H for GPT-2
  std::int64_t ffn_hidden_size = 0;   // F; 4 C for GPT-2
  std::int64_t max_positions = 0;     // P: rows of the position table

  Norm norm = Norm::layernorm;
  Activation activation = Activation::gelu_tanh;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  bool linear_bias = true;
  bool tied_embeddings = true;
  double norm_eps = 1e-5;
  double init_std = 0.02;

  bool operator==(const GptConfig&) const = default;

  /// Fills what follows from the rest when it is 0: query groups, head_dim, ffn_hidden_size.
  void complete();
  /// Everything that is wrong or not supported, in words; empty when the model can be built.
  std::vector<std::string> problems() const;
};

/// Vocabulary size in memory: the next multiple of `multiple` * tensor_parallel_size.
std::int64_t padded_vocab_size(std::int64_t vocab_size, std::int64_t multiple, std::int64_t tensor_parallel_size);

}  // namespace mtl
