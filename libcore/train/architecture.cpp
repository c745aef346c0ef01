#include "train/architecture.h"

#include <set>

#include "base/str.h"

namespace mtl {

namespace {

/// A value and the flag that sets it: "--swiglu", "--normalization RMSNorm".
template <class T>
struct Given {
  std::string flag;
  T value;
};

/// Returns the activation that the flags select, if any. GELU uses the tanh form unless --no-bias-gelu-fusion is given.
std::optional<Given<Activation>> given_activation(const ArchitectureOptions& given) {
  static constexpr std::pair<const char*, Activation> kNames[] = {{"gelu_tanh", Activation::gelu_tanh},
                                                                  {"gelu_erf", Activation::gelu_erf},
                                                                  {"relu", Activation::relu},
                                                                  {"squared_relu", Activation::squared_relu},
                                                                  {"silu", Activation::silu}};
  for (const auto& [name, value] : kNames) {
    if (given.activation == name) return {{cat("--activation ", name), value}};
  }
  if (given.swiglu) return {{"--swiglu", Activation::silu}};
  if (given.squared_relu) return {{"--squared-relu", Activation::squared_relu}};
  if (given.openai_gelu) return {{"--openai-gelu", Activation::gelu_tanh}};
  if (given.no_bias_gelu_fusion) return {{"--no-bias-gelu-fusion", Activation::gelu_erf}};
  return {};
}

/// Parses "127,0" or "(127,0)": how many tokens a query sees to its left and right. Returns the window size, which
/// includes the query's own token. Returns empty if the text has a different form.
std::optional<std::int64_t> window_of(const std::string& text) {
  std::string inner = text;
  if (inner.starts_with("(") && inner.ends_with(")")) inner = inner.substr(1, inner.size() - 2);
  const std::vector<std::string> sides = split(inner, ',');
  if (sides.size() != 2 || parse_int(trim(sides[1])) != 0) return {};
  const std::optional<std::int64_t> left = parse_int(trim(sides[0]));
  if (!left || *left < 0 || *left > INT32_MAX) return {};
  return *left + 1;
}

/// Applies flags to a new configuration, or compares them with a loaded one.
class FlagResolver {
 public:
  FlagResolver(const ArchitectureOptions& given, bool is_loaded, const ReportProblem& report)
      : given_(given), is_loaded_(is_loaded), report_(report) {}

  /// Resolves a number. `flag` is the name alone.
  template <class T>
  void number(T& member, const std::optional<T>& given, const char* flag, bool is_required = false) const {
    if (given && is_loaded_ && *given != member)
      difference(cat(flag, " ", *given), cat("the loaded model has ", member));
    else if (given)
      member = *given;
    else if (is_required && !is_loaded_)
      problem(flag, "is required without --load");
  }

  /// Resolves a number that a loaded model with rotary positions may continue with, if the user gave it.
  template <class T>
  void rotary_number(const GptConfig& config, T& member, const std::optional<T>& given, const char* flag) const {
    if (!given) return;
    if (is_loaded_ && config.position_embedding != PositionEmbedding::rotary)
      difference(cat(flag, " ", *given), "the loaded model has learned positions");
    else if (given_.preset_flags.contains(flag))
      number(member, given, flag);
    else
      member = *given;
  }

  /// Resolves a choice. `flag` includes the value, and `other` completes the message "the loaded model ...".
  template <class T>
  void choice(T& member, T value, bool is_given, const std::string& flag, const char* other) const {
    if (!is_given) return;
    if (is_loaded_ && member != value) difference(flag, cat("the loaded model ", other));
    if (!is_loaded_) member = value;
  }

  bool is_loaded() const { return is_loaded_; }
  /// Reports a problem, unless one with this flag has been reported.
  void problem(std::string flag, std::string what) const {
    if (is_first(flag)) report_(std::move(flag), std::move(what));
  }
  /// Reports that a flag differs from the loaded model. Keeps a preset's differences for report_preset().
  void difference(const std::string& flag, const std::string& what) const {
    if (!given_.preset_flags.contains(name_of(flag)))
      problem(flag, what + "; leave the flag out");
    else if (is_first(flag))
      preset_differences_.push_back(cat(flag, " (", what, ")"));
  }
  void report_preset() const {
    if (preset_differences_.empty()) return;
    const char* length = given_.preset_flags.contains("--seq-length") ? ", and choose a --seq-length" : "";
    report_(cat("--model ", given_.preset.value_or("")),
            cat("sets ", join(preset_differences_, ", "), "; leave out --model", length));
  }

 private:
  static std::string name_of(const std::string& flag) { return flag.substr(0, flag.find(' ')); }
  bool is_first(const std::string& flag) const { return reported_.insert(name_of(flag)).second; }

  const ArchitectureOptions& given_;
  bool is_loaded_;
  const ReportProblem& report_;
  mutable std::set<std::string> reported_;  // flags
  mutable std::vector<std::string> preset_differences_;
};

void resolve_mlp(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  const std::optional<Given<Activation>> activation = given_activation(given);
  if (activation)
    resolver.choice(config.activation, activation->value, true, activation->flag, "has another activation");
  resolver.choice(config.gated_mlp, true, given.swiglu, "--swiglu", "has an MLP without a gate");
  resolver.number(config.ffn_hidden_size, given.ffn_hidden_size, "--ffn-hidden-size");
  // As in Megatron-LM: 2/3 of 4 C, rounded down to a multiple of 64, so that three matrices have as many parameters as
  // two.
  if (resolver.is_loaded() || given.ffn_hidden_size || !given.swiglu) return;
  config.ffn_hidden_size = 4 * config.hidden_size * 2 / 3 / 64 * 64;
  if (config.ffn_hidden_size == 0 && config.hidden_size > 0 && activation_flags(given).size() == 1)
    resolver.problem("--swiglu", cat("needs --ffn-hidden-size, because 8/3 of the hidden size ", config.hidden_size,
                                     ", rounded down to a multiple of 64 as in Megatron-LM, is 0"));
}

void resolve_attention(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  std::optional<std::int64_t> groups = given.num_query_groups;
  if (!given.group_query_attention && groups != given.num_attention_heads) groups.reset();  // the flag is refused
  if (given.group_query_attention && !groups) {
    if (!resolver.is_loaded())
      groups = 1;  // Megatron-LM's default
    else if (config.num_query_groups == config.num_heads)
      resolver.difference("--group-query-attention", "every head of the loaded model has its own keys");
  }
  resolver.number(config.num_query_groups, groups, "--num-query-groups");
  resolver.number(config.head_dim, given.kv_channels, "--kv-channels");
  resolver.choice(config.qk_norm, true, given.qk_layernorm, "--qk-layernorm", "does not normalize queries and keys");
  if (given.window_size) {
    const std::int64_t window = window_of(*given.window_size).value_or(0);  // errors: see check_architecture()
    resolver.choice(config.sliding_window, window, window > 0, cat("--window-size ", *given.window_size),
                    "has another window");
  }
}

void resolve_positions(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  RotaryOptions& rotary = config.rotary;
  const bool is_learned = given.position_embedding_type == "learned_absolute";
  resolver.choice(config.position_embedding, PositionEmbedding::rotary, given.is_rotary(),
                  given.rotary_embeddings ? "--use-rotary-position-embeddings" : "--position-embedding-type rope",
                  "has learned positions");
  resolver.choice(config.position_embedding, PositionEmbedding::learned, is_learned,
                  "--position-embedding-type learned_absolute", "has rotary positions");
  resolver.rotary_number(config, rotary.base, given.rotary_base, "--rotary-base");
  resolver.number(rotary.percent, given.rotary_percent, "--rotary-percent");
  resolver.choice(rotary.interleaved, true, given.rotary_interleaved, "--rotary-interleaved", "rotates halves");
  const auto scale = [&](RotaryOptions::Scaling scaling, const char* flag, const char* other,
                         const std::optional<double>& factor, const char* factor_flag) {
    resolver.choice(rotary.scaling, scaling, true, flag, other);
    if (rotary.scaling == scaling) resolver.number(rotary.factor, factor, factor_flag);
  };
  if (const char* flag = "--rotary-seq-len-interpolation-factor"; given.rotary_interpolation)
    scale(RotaryOptions::Scaling::linear, flag, "does not interpolate positions", given.rotary_interpolation, flag);
  std::optional<double> factor = given.rope_scaling_factor;
  if (!factor && !resolver.is_loaded()) factor = 8;  // Megatron-LM's default
  if (given.rope_scaling)
    scale(RotaryOptions::Scaling::llama3, "--use-rope-scaling", "does not scale rotary frequencies as Llama 3.1",
          factor, "--rope-scaling-factor");
}

void resolve_bias(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  const bool all = !given.disable_bias_linear;
  // The flag says nothing about the loaded model's queries, keys and values if --add-qkv-bias does.
  const LinearBias wanted{given.add_qkv_bias ? config.bias.qkv || !resolver.is_loaded() : all, all, all};
  resolver.choice(config.bias, wanted, given.disable_bias_linear, "--disable-bias-linear", "has other biases");
  resolver.choice(config.bias.qkv, true, given.add_qkv_bias, "--add-qkv-bias",
                  "has no bias on queries, keys and values");
}

}  // namespace

std::vector<std::string> activation_flags(const ArchitectureOptions& given) {
  std::vector<std::string> flags;
  if (given.activation) flags.push_back(cat("--activation ", *given.activation));
  if (given.swiglu) flags.emplace_back("--swiglu");
  if (given.squared_relu) flags.emplace_back("--squared-relu");
  if (given.openai_gelu) flags.emplace_back("--openai-gelu");
  return flags;
}

void check_architecture(const ArchitectureOptions& given, const ReportProblem& report) {
  const std::vector<std::string> activations = activation_flags(given);
  if (activations.size() > 1) report(join(activations, ", "), "choose different activations; use only one of them");
  if (given.rotary_embeddings && given.position_embedding_type == "learned_absolute")
    report("--use-rotary-position-embeddings",
           "contradicts --position-embedding-type learned_absolute; use only one of them");
  if (given.rotary_interpolation && given.rope_scaling)
    report("--use-rope-scaling", "excludes --rotary-seq-len-interpolation-factor; use only one of them");
  if (given.window_size && !window_of(*given.window_size))
    report(cat("--window-size ", *given.window_size),
           "must be LEFT,0 (each token sees LEFT tokens before its own, and none after it)");
}

GptConfig resolve_architecture(const ArchitectureOptions& given, const std::optional<GptConfig>& loaded,
                               std::int64_t seq_length, const ReportProblem& report) {
  GptConfig config = loaded.value_or(GptConfig{});
  const FlagResolver resolver(given, loaded.has_value(), report);
  resolver.number(config.num_layers, given.num_layers, "--num-layers", true);
  resolver.number(config.hidden_size, given.hidden_size, "--hidden-size", true);
  resolver.number(config.num_heads, given.num_attention_heads, "--num-attention-heads", true);
  resolve_attention(config, given, resolver);
  resolve_mlp(config, given, resolver);
  resolve_positions(config, given, resolver);
  const bool is_rotary = config.position_embedding == PositionEmbedding::rotary;
  if (is_rotary)
    resolver.rotary_number(config, config.max_positions, given.max_position_embeddings, "--max-position-embeddings");
  else
    resolver.number(config.max_positions, given.max_position_embeddings, "--max-position-embeddings", true);
  if (is_rotary && config.max_positions == 0) config.max_positions = seq_length;
  resolver.choice(config.norm, given.normalization == "RMSNorm" ? Norm::rmsnorm : Norm::layernorm,
                  given.normalization.has_value(), cat("--normalization ", given.normalization.value_or("")),
                  "has the other norm");
  resolver.number(config.norm_eps, given.norm_epsilon, "--norm-epsilon");
  resolve_bias(config, given, resolver);
  resolver.choice(config.tied_embeddings, false, given.untie_embeddings, "--untie-embeddings-and-output-weights",
                  "ties its embedding and output weights");
  resolver.choice(config.parallel_residual, true, given.parallel_residual, "--parallel-residual",
                  "computes its MLP after attention");
  if (!loaded) config.init_std = given.init_method_std.value_or(config.init_std);
  resolver.report_preset();
  return config;
}

}  // namespace mtl
