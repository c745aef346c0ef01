#include "run/architecture.h"

#include "base/enum_index.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "models/hf_config.h"
#include "nn/rotary.h"

namespace mtl {

namespace {

/// Returns the given flags that select the activation, such as "--activation relu", and what each selects.
std::vector<std::pair<std::string, Activation>> given_activations(const ArchitectureOptions& given) {
  std::vector<std::pair<std::string, Activation>> out;
  if (const auto named = enum_named<Activation>(kActivationNames, given.activation.value_or("")))
    out.emplace_back(cat("--activation ", *given.activation), *named);
  if (given.swiglu) out.emplace_back("--swiglu", Activation::silu);
  if (given.squared_relu) out.emplace_back("--squared-relu", Activation::squared_relu);
  if (given.openai_gelu) out.emplace_back("--openai-gelu", Activation::gelu_tanh);
  return out;
}

/// Returns the first given flag that acts with yarn only, with its value, or "".
std::string first_yarn_flag(const ArchitectureOptions& given) {
  const std::pair<const char*, const std::optional<double>*> numbers[] = {
      {"--rotary-scaling-factor", &given.rotary_scaling_factor},
      {"--mscale", &given.mscale},
      {"--mscale-all-dim", &given.mscale_all_dim},
      {"--yarn-beta-fast", &given.yarn_beta_fast},
      {"--yarn-beta-slow", &given.yarn_beta_slow}};
  for (const auto& [flag, value] : numbers) {
    if (*value) return cat(flag, " ", **value);
  }
  if (given.yarn_original_positions)
    return cat("--yarn-original-max-position-embeddings ", *given.yarn_original_positions);
  if (given.yarn_round_pairs) return "--yarn-correction-range-round-to-int";
  return given.yarn_no_round_pairs ? "--no-yarn-correction-range-round-to-int" : "";
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
    if (!given || !may_change_rotary(config, cat(flag, " ", *given))) return;
    if (is_preset(flag))
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

  /// Returns true if the flag may change the positions of the model: of every new one, and of a loaded one with rotary
  /// positions. Reports it otherwise.
  bool may_change_rotary(const GptConfig& config, const std::string& flag) const {
    if (!is_loaded_ || config.is_rotary()) return true;
    difference(flag, "the loaded model has learned positions");
    return false;
  }
  bool is_preset(const char* flag) const { return given_.preset_flags.contains(flag); }
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
  auto activations = given_activations(given);
  // GELU has the tanh form by default.
  if (given.no_bias_gelu_fusion) activations.emplace_back("--no-bias-gelu-fusion", Activation::gelu_erf);
  if (!activations.empty())
    resolver.choice(config.activation, activations[0].second, true, activations[0].first, "has another activation");
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

/// Returns the options with another scaling, whose values are the defaults, or the same options if they have it.
RotaryOptions scaled_as(RotaryOptions::Scaling scaling, const RotaryOptions& rotary) {
  if (rotary.scaling == scaling) return rotary;
  return {.base = rotary.base, .percent = rotary.percent, .interleaved = rotary.interleaved, .scaling = scaling};
}

void resolve_llama3(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  constexpr const char* kSwitch = "--use-rope-scaling";
  constexpr double kDefaultFactor = 8;  // Megatron-LM's
  using Scaling = RotaryOptions::Scaling;
  RotaryOptions& rotary = config.rotary;
  if (!given.rope_scaling) return;
  if (resolver.is_preset(kSwitch)) {
    resolver.choice(rotary.scaling, Scaling::llama3, true, kSwitch, "does not scale rotary frequencies as Llama 3.1");
    if (rotary.scaling == Scaling::llama3)
      resolver.number(rotary.factor, given.rope_scaling_factor, "--rope-scaling-factor");
    return;
  }
  if (!resolver.may_change_rotary(config, kSwitch)) return;
  const double factor = rotary.scaling == Scaling::llama3 ? rotary.factor : kDefaultFactor;
  rotary = scaled_as(Scaling::llama3, rotary);
  rotary.factor = given.rope_scaling_factor.value_or(factor);
}

/// Applies Megatron-LM's yarn flags. Without a length, a loaded model was trained for its number of positions.
void resolve_yarn(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  constexpr std::int64_t kDefaultPositions = 4096;  // Megatron-LM's
  using Scaling = RotaryOptions::Scaling;
  RotaryOptions& rotary = config.rotary;
  const std::string first = first_yarn_flag(given);
  if (!given.is_yarn()) {
    const bool is_yarn = config.is_rotary() && rotary.scaling == Scaling::yarn;
    if (!first.empty() && resolver.is_loaded() && !is_yarn && resolver.may_change_rotary(config, first))
      resolver.problem(first, "needs --position-embedding-type yarn, because the loaded model has no yarn scaling");
    if (!is_yarn) return;
  }
  if (!config.is_rotary()) return;  // reported
  const bool is_new = rotary.scaling != Scaling::yarn;
  rotary = scaled_as(Scaling::yarn, rotary);
  if (is_new) rotary.original_positions = resolver.is_loaded() ? config.max_positions : kDefaultPositions;
  rotary.original_positions = given.yarn_original_positions.value_or(rotary.original_positions);
  rotary.factor = given.rotary_scaling_factor.value_or(rotary.factor);
  rotary.beta_fast = given.yarn_beta_fast.value_or(rotary.beta_fast);
  rotary.beta_slow = given.yarn_beta_slow.value_or(rotary.beta_slow);
  rotary.round_pairs = given.yarn_round_pairs || (rotary.round_pairs && !given.yarn_no_round_pairs);
  if (is_new || given.rotary_scaling_factor || given.mscale || given.mscale_all_dim)
    rotary.attention_factor =
        yarn_attention_factor(rotary.factor, given.mscale.value_or(1), given.mscale_all_dim.value_or(0));
}

void resolve_positions(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  RotaryOptions& rotary = config.rotary;
  const bool is_learned = given.position_embedding_type == "learned_absolute";
  resolver.choice(config.position_embedding, PositionEmbedding::rotary, given.is_rotary(),
                  given.rotary_embeddings
                      ? "--use-rotary-position-embeddings"
                      : cat("--position-embedding-type ", given.position_embedding_type.value_or("rope")),
                  "has learned positions");
  resolver.choice(config.position_embedding, PositionEmbedding::learned, is_learned,
                  "--position-embedding-type learned_absolute", "has rotary positions");
  resolver.rotary_number(config, rotary.base, given.rotary_base, "--rotary-base");
  resolver.number(rotary.percent, given.rotary_percent, "--rotary-percent");
  resolver.choice(rotary.interleaved, true, given.rotary_interleaved, "--rotary-interleaved", "rotates halves");
  if (const char* flag = "--rotary-seq-len-interpolation-factor";
      given.rotary_interpolation && resolver.may_change_rotary(config, cat(flag, " ", *given.rotary_interpolation))) {
    rotary = scaled_as(RotaryOptions::Scaling::linear, rotary);
    rotary.factor = *given.rotary_interpolation;
  }
  resolve_llama3(config, given, resolver);
  resolve_yarn(config, given, resolver);
}

/// Applies --rope-parameters. The number of positions must be resolved.
void resolve_rope_parameters(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  if (!given.rope_parameters || !resolver.may_change_rotary(config, "--rope-parameters")) return;
  if (!config.is_rotary()) return;  // no effect: see its flag
  std::vector<std::string> problems;
  try {
    const RotaryOptions rotary = rotary_from_hf(Json::parse(*given.rope_parameters), config, problems);
    if (problems.empty() && resolver.is_loaded() && rotary.percent != config.rotary.percent)
      problems.push_back(cat("rope_parameters.partial_rotary_factor is ", rotary.percent, ", but the loaded model has ",
                             config.rotary.percent, "; leave it out"));
    if (problems.empty()) config.rotary = rotary;
  } catch (const Error&) {  // not JSON: see check_architecture()
  }
  for (const std::string& problem : problems) resolver.problem("--rope-parameters", problem);
}

void resolve_bias(GptConfig& config, const ArchitectureOptions& given, const FlagResolver& resolver) {
  const bool all = !given.disable_bias_linear;
  // The flag says nothing about the loaded model's queries, keys and values if --add-qkv-bias does.
  const LinearBias wanted{given.add_qkv_bias ? config.bias.qkv || !resolver.is_loaded() : all, all, all};
  resolver.choice(config.bias, wanted, given.disable_bias_linear, "--disable-bias-linear", "has other biases");
  resolver.choice(config.bias.qkv, true, given.add_qkv_bias, "--add-qkv-bias",
                  "has no bias on queries, keys and values");
}

/// Reports what is wrong with --rope-parameters in every model.
void check_rope_parameters(const ArchitectureOptions& given, const ReportProblem& report) {
  constexpr const char* kFlag = "--rope-parameters";
  for (const auto& [flag, value] :
       {std::pair("--rotary-base", given.rotary_base), std::pair("--rotary-percent", given.rotary_percent)}) {
    if (value && !given.preset_flags.contains(flag))
      report(cat(flag, " ", *value), cat("excludes ", kFlag, ", which can state it; use only one of them"));
  }
  try {
    if (!Json::parse(*given.rope_parameters).is_object())
      report(kFlag, "must be a JSON object, such as {\"rope_type\": \"dynamic\", \"factor\": 4}");
  } catch (const Error& error) {
    report(kFlag, cat("is not JSON (", error.what(),
                      "); it must be an object, such as {\"rope_type\": \"dynamic\", \"factor\": 4}"));
  }
}

}  // namespace

std::optional<std::int64_t> window_of(const std::string& text) {
  std::string inner = text;
  if (inner.starts_with("(") && inner.ends_with(")")) inner = inner.substr(1, inner.size() - 2);
  const std::vector<std::string> sides = split(inner, ',');
  if (sides.size() != 2 || parse_int(trim(sides[1])) != 0) return {};
  const std::optional<std::int64_t> left = parse_int(trim(sides[0]));
  if (!left || *left < 0 || *left > INT32_MAX) return {};
  return *left + 1;
}

std::vector<std::string> activation_flags(const ArchitectureOptions& given) {
  return texts_of(given_activations(given), &std::pair<std::string, Activation>::first);
}

std::vector<std::string> scaling_flags(const ArchitectureOptions& given) {
  std::vector<std::string> flags;
  if (given.rotary_interpolation)
    flags.push_back(cat("--rotary-seq-len-interpolation-factor ", *given.rotary_interpolation));
  if (given.rope_scaling) flags.emplace_back("--use-rope-scaling");
  if (given.is_yarn()) flags.emplace_back("--position-embedding-type yarn");
  if (given.rope_parameters) flags.emplace_back("--rope-parameters");
  return flags;
}

void check_architecture(const ArchitectureOptions& given, const ReportProblem& report) {
  const std::vector<std::string> activations = activation_flags(given);
  if (activations.size() > 1) report(join(activations, ", "), "choose different activations; use only one of them");
  if (given.rotary_embeddings && given.position_embedding_type && given.position_embedding_type != "rope")
    report("--use-rotary-position-embeddings",
           cat("contradicts --position-embedding-type ", *given.position_embedding_type, "; use only one of them"));
  if (const std::vector<std::string> scalings = scaling_flags(given); scalings.size() > 1)
    report(join(scalings, ", "), "scale rotary frequencies in different ways; use only one of them");
  if (given.yarn_round_pairs && given.yarn_no_round_pairs)
    report("--no-yarn-correction-range-round-to-int",
           "contradicts --yarn-correction-range-round-to-int; use only one of them");
  if (given.rope_parameters) check_rope_parameters(given, report);
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
  if (config.is_rotary())
    resolver.rotary_number(config, config.max_positions, given.max_position_embeddings, "--max-position-embeddings");
  else if (loaded && given.max_position_embeddings.value_or(config.max_positions) > config.max_positions)
    resolver.difference(cat("--max-position-embeddings ", *given.max_position_embeddings),
                        cat("the loaded model has ", config.max_positions,
                            " learned positions, and nothing to derive more of them from"));
  else
    resolver.number(config.max_positions, given.max_position_embeddings, "--max-position-embeddings", true);
  if (config.is_rotary() && config.max_positions == 0) config.max_positions = seq_length;
  resolve_rope_parameters(config, given, resolver);
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
