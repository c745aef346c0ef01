// A GPT's architecture. GPT-2, Llama and similar models are settings of the same configuration.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activation.h"

namespace mtl {

enum class Norm { layernorm, rmsnorm };
enum class PositionEmbedding { learned, rotary };

inline constexpr std::int64_t kMaxRotaryDims = 256;

/// Rotary positions (Su et al. 2021). Pair i in a head is rotated by position * frequency_i, where frequency_i =
/// base^(-2 i / dims) before scaling and dims = percent * head_dim.
struct RotaryOptions {
  enum class Scaling { none, linear, llama3, yarn, longrope, dynamic };

  double base = 10000;
  double percent = 1;        // fraction of each head's elements; the rest pass through unchanged
  bool interleaved = false;  // pair i is elements (2i, 2i + 1); otherwise (i, i + dims / 2)
  Scaling scaling = Scaling::none;
  // linear divides all frequencies by `factor`. llama3 divides those with wavelengths above original_positions /
  // low_freq_factor, keeps those below original_positions / high_freq_factor, and interpolates in between (as in Llama
  // 3.1's reference code). yarn keeps pairs that turn beta_fast times or more within original_positions, divides those
  // that turn beta_slow times or less, and interpolates in between over the index of the pair, whose bounds it rounds
  // outwards to whole pairs if round_pairs (Peng et al. 2023). longrope divides each frequency by a factor of its own,
  // from short_factors or, in sequences longer than original_positions, from long_factors (Ding et al. 2024). dynamic
  // raises the base in sequences longer than the model's max_positions. For longrope, `factor` only says how much
  // longer than original_positions sequences may be.
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4, beta_fast = 32, beta_slow = 1;
  bool round_pairs = true;
  std::vector<double> short_factors{}, long_factors{};  // one for each pair
  double attention_factor = 1;                          // yarn and longrope: multiplies cosines and sines
  std::int64_t original_positions = 8192;

  /// Returns true if the frequencies depend on the length of the sequence.
  bool depends_on_length() const { return scaling == Scaling::longrope || scaling == Scaling::dynamic; }
  /// Returns true if the scaling stretches original_positions; linear and dynamic stretch the model's max_positions.
  bool stretches_original() const {
    return scaling == Scaling::llama3 || scaling == Scaling::yarn || scaling == Scaling::longrope;
  }

  bool operator==(const RotaryOptions&) const = default;
};

/// Which linear layers have a bias.
struct LinearBias {
  bool qkv = true, out = true, mlp = true;

  bool operator==(const LinearBias&) const = default;
};

struct GptConfig {
  std::int64_t vocab_size = 0;        // V: true size; rows beyond it in memory are unused padding
  std::int64_t num_layers = 0;        // L
  std::int64_t hidden_size = 0;       // C
  std::int64_t num_heads = 0;         // H
  std::int64_t num_query_groups = 0;  // G: key/value heads; H for GPT-2
  std::int64_t head_dim = 0;          // D; C / H for GPT-2
  std::int64_t ffn_hidden_size = 0;   // F; 4 C for GPT-2
  std::int64_t max_positions = 0;     // P: rows of the position embedding; with rotary positions see longest_sequence()

  Norm norm = Norm::layernorm;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu_tanh;
  bool gated_mlp = false;  // activation(gate(x)) * up(x); with silu: SwiGLU
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  RotaryOptions rotary;
  LinearBias bias;
  bool qk_norm = false;                 // RMSNorm on every query and key head, before the rotation
  std::int64_t sliding_window = 0;      // tokens that a query attends to, including itself; 0: all
  std::int64_t first_window_layer = 0;  // earlier layers have no window
  bool parallel_residual = false;       // x + attention(norm1(x)) + mlp(norm2(x))
  bool tied_embeddings = true;          // the output layer shares the token embedding
  double init_std = 0.02;

  bool operator==(const GptConfig&) const = default;

  /// Returns a layer's sliding window in tokens; 0: none.
  std::int64_t window_of(std::int64_t layer) const { return layer < first_window_layer ? 0 : sliding_window; }
  /// Returns the most tokens that a sequence can have: max_positions, or as many as rotary scaling reaches.
  /// Configurations often leave max_positions at the length before scaling.
  std::int64_t longest_sequence() const;
  bool is_rotary() const { return position_embedding == PositionEmbedding::rotary; }
  /// Returns true if the frequencies of its rotary positions depend on the length of the sequence.
  bool depends_on_length() const { return is_rotary() && rotary.depends_on_length(); }
  /// Returns the standard deviation of initial weights in layers whose output is added to the residual stream.
  double output_init_std() const { return init_std / std::sqrt(2.0 * double(num_layers)); }
  /// Replaces sizes that are 0 with GPT-2's: num_query_groups = H, head_dim = C / H if H divides C, ffn_hidden_size = 4
  /// C.
  void complete();
  /// Returns errors and unsupported settings, one message each. Empty if the model can be built.
  std::vector<std::string> problems() const;
  /// Returns only problems with `rotary`.
  std::vector<std::string> rotary_problems() const;
};

/// Returns the vocabulary size in memory: the size rounded up to a multiple of `multiple` * tensor_parallel_size.
std::int64_t padded_vocab_size(std::int64_t vocab_size, std::int64_t multiple, std::int64_t tensor_parallel_size);

}  // namespace mtl
