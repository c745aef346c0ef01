// Resolves the model's architecture from flags, using Megatron-LM's names and rules where they exist.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/usage_error.h"
#include "nn/gpt_config.h"

namespace mtl {

/// If an option is absent, we use the loaded model's value or, in a new model, GptConfig's default.
struct ArchitectureOptions {
  std::optional<std::int64_t> num_layers, hidden_size, num_attention_heads, num_query_groups, kv_channels,
      ffn_hidden_size, max_position_embeddings;
  std::optional<std::string> normalization, activation, position_embedding_type, window_size;
  std::optional<double> norm_epsilon, init_method_std, rotary_base, rotary_percent, rotary_interpolation,
      rope_scaling_factor, rotary_scaling_factor, mscale, mscale_all_dim, yarn_beta_fast, yarn_beta_slow;
  std::optional<std::int64_t> yarn_original_positions;
  std::optional<std::string> rope_parameters;  // JSON
  bool group_query_attention = false, qk_layernorm = false, swiglu = false, squared_relu = false, openai_gelu = false,
       no_bias_gelu_fusion = false, disable_bias_linear = false, add_qkv_bias = false, untie_embeddings = false,
       parallel_residual = false, rotary_embeddings = false, rotary_interleaved = false, rope_scaling = false,
       yarn_round_pairs = false, yarn_no_round_pairs = false;
  std::int64_t make_vocab_size_divisible_by = 128;
  std::optional<std::string> preset;   // --model
  std::set<std::string> preset_flags;  // the flags that were not given, and have the preset's values

  bool is_yarn() const { return position_embedding_type == "yarn"; }
  bool is_rotary() const { return rotary_embeddings || position_embedding_type == "rope" || is_yarn(); }
};

/// Returns the given flags that select the MLP activation: at most one in a valid command. Never returns
/// --no-bias-gelu-fusion, which only selects the form of GELU.
std::vector<std::string> activation_flags(const ArchitectureOptions& given);

/// Returns the given flags that select the scaling of rotary frequencies: at most one in a valid command.
std::vector<std::string> scaling_flags(const ArchitectureOptions& given);

/// Reports flags that exclude each other in every model, a --window-size that is not of the form LEFT,0, and
/// --rope-parameters that are not a JSON object.
void check_architecture(const ArchitectureOptions& given, const ReportProblem& report);

/// Parses "127,0" or "(127,0)": how many tokens a query sees to its left and right. Returns the window size, which
/// includes the query's own token. Returns empty if the text has a different form.
std::optional<std::int64_t> window_of(const std::string& text);

/// Returns the loaded model's configuration or, if `loaded` is empty, a new model's, in which absent sizes stay 0.
/// Reports flags that disagree with the loaded model, and missing sizes that a new model needs. A rotary model without
/// --max-position-embeddings gets `seq_length` positions. A loaded rotary model continues with
/// --max-position-embeddings, --rotary-base and another scaling of frequencies, which need not agree with it if they
/// were given. Values of a preset must always agree; those that do not are one problem, of --model.
GptConfig resolve_architecture(const ArchitectureOptions& given, const std::optional<GptConfig>& loaded,
                               std::int64_t seq_length, const ReportProblem& report);

}  // namespace mtl
