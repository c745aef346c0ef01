#include "models/canonical.h"

#include <algorithm>

#include "base/enum_index.h"
#include "base/error.h"
#include "base/str.h"
#include "layout/slice.h"
#include "nn/model_params.h"

namespace mtl {

namespace {

template <class Member>
struct Field {
  const char* key;
  Member member;
};

constexpr Field<std::int64_t GptConfig::*> kSizes[] = {{"vocab_size", &GptConfig::vocab_size},
                                                       {"num_layers", &GptConfig::num_layers},
                                                       {"hidden_size", &GptConfig::hidden_size},
                                                       {"num_attention_heads", &GptConfig::num_heads},
                                                       {"num_query_groups", &GptConfig::num_query_groups},
                                                       {"kv_channels", &GptConfig::head_dim},
                                                       {"ffn_hidden_size", &GptConfig::ffn_hidden_size},
                                                       {"max_position_embeddings", &GptConfig::max_positions}};

constexpr Field<bool LinearBias::*> kBiases[] = {
    {"qkv_bias", &LinearBias::qkv}, {"out_bias", &LinearBias::out}, {"mlp_bias", &LinearBias::mlp}};

constexpr Field<bool GptConfig::*> kSwitches[] = {{"gated_mlp", &GptConfig::gated_mlp},
                                                  {"qk_norm", &GptConfig::qk_norm},
                                                  {"parallel_residual", &GptConfig::parallel_residual}};

constexpr const char* kNorms[] = {"layernorm", "rmsnorm"};
constexpr const char* kPositions[] = {"learned", "rotary"};
using Scaling = RotaryOptions::Scaling;
constexpr const char* kScalings[] = {"none", "linear", "llama3", "yarn", "longrope", "dynamic"};

template <class Enum, class Names>
Json name_in(const Names& names, Enum value) {
  return names[enum_index(value)];
}

template <class Enum, class Names>
Enum value_of(const Names& names, const Json& json, const char* key) {
  const std::string& text = json.at(key).as_string();
  if (const auto value = enum_named<Enum>(names, text)) return *value;
  fail(Exit::bad_data, key, " is '", text,
       "', which this version of mtl does not know; use the version that wrote the checkpoint");
}

}  // namespace

std::vector<CanonicalTensor> canonical_tensors(const GptConfig& config) {
  std::vector<CanonicalTensor> out;
  for (ParamSpec& spec : model_params(config)) out.push_back({std::move(spec.name), std::move(spec.shape)});
  return out;
}

std::vector<std::string> tensor_kinds(const std::function<bool(const std::string& kind)>& holds) {
  std::vector<std::string> kinds = {kParamKind};
  for (const auto& rule : known_rules()) {
    const std::vector<StateSpec> states = rule->states(kPrecisionFp32);
    if (std::ranges::none_of(states, [&](const StateSpec& state) { return holds(state.name); })) continue;
    for (const StateSpec& state : states) kinds.push_back(state.name);
  }
  return kinds;
}

std::vector<std::string> param_kinds(const std::vector<std::string>& kinds,
                                     const std::function<bool(const std::string& kind)>& holds) {
  std::vector<std::string> first;
  for (const auto& rule : known_rules()) {
    std::vector<std::string> of_rule = {kParamKind};
    for (const StateSpec& state : rule->states(kPrecisionFp32)) of_rule.push_back(state.name);
    if (of_rule.size() == 1 || std::ranges::count(kinds, of_rule[1]) == 0) continue;
    if (std::any_of(of_rule.begin() + 1, of_rule.end(), holds)) return of_rule;
    if (first.empty()) first = of_rule;
  }
  return first.empty() ? std::vector<std::string>{kParamKind} : first;
}

std::int64_t checkpoint_bytes(const GptConfig& config, const Precision& precision, const RuleSet& rules) {
  std::int64_t bytes = 0;
  for (const ParamSpec& spec : model_params(config)) {
    std::size_t element = size_of(precision.main_params);
    if (!rules.empty())
      for (const StateSpec& state : rules.rule_of(spec).states(precision)) element += size_of(state.dtype);
    bytes += spec.numel() * static_cast<std::int64_t>(element);
  }
  return bytes;
}

namespace {

Json numbers_to_json(const std::vector<double>& numbers) { return Json::Array(numbers.begin(), numbers.end()); }

std::vector<double> numbers_from_json(const Json& json, const char* key) {
  std::vector<double> out;
  if (const Json* list = json.find(key)) {
    for (const Json& number : list->as_array()) out.push_back(number.as_number());
  }
  return out;
}

Json rotary_to_json(const RotaryOptions& rotary) {
  Json out = Json::object({{"base", rotary.base}, {"percent", rotary.percent}, {"interleaved", rotary.interleaved}});
  const Scaling scaling = rotary.scaling;
  if (scaling == Scaling::none) return out;
  out.set("scaling", name_in(kScalings, scaling));
  out.set("factor", rotary.factor);
  if (scaling == Scaling::llama3) {
    out.set("low_freq_factor", rotary.low_freq_factor);
    out.set("high_freq_factor", rotary.high_freq_factor);
  }
  if (scaling == Scaling::yarn) {
    out.set("beta_fast", rotary.beta_fast);
    out.set("beta_slow", rotary.beta_slow);
    out.set("round_pairs", rotary.round_pairs);
  }
  if (scaling == Scaling::longrope) {
    out.set("short_factors", numbers_to_json(rotary.short_factors));
    out.set("long_factors", numbers_to_json(rotary.long_factors));
  }
  if (scaling == Scaling::yarn || scaling == Scaling::longrope) out.set("attention_factor", rotary.attention_factor);
  if (rotary.stretches_original()) out.set("original_positions", rotary.original_positions);
  return out;
}

RotaryOptions rotary_from_json(const Json& json, std::int64_t max_positions) {
  RotaryOptions rotary;
  rotary.base = json.at("base").as_number();
  rotary.percent = json.at("percent").as_number();
  rotary.interleaved = json.at("interleaved").as_bool();
  if (json.find("scaling") != nullptr) rotary.scaling = value_of<Scaling>(kScalings, json, "scaling");
  rotary.low_freq_factor = json.number_or("low_freq_factor", rotary.low_freq_factor);
  rotary.high_freq_factor = json.number_or("high_freq_factor", rotary.high_freq_factor);
  rotary.beta_fast = json.number_or("beta_fast", rotary.beta_fast);
  rotary.beta_slow = json.number_or("beta_slow", rotary.beta_slow);
  rotary.round_pairs = json.bool_or("round_pairs", rotary.round_pairs);
  rotary.short_factors = numbers_from_json(json, "short_factors");
  rotary.long_factors = numbers_from_json(json, "long_factors");
  rotary.attention_factor = json.number_or("attention_factor", rotary.attention_factor);
  rotary.original_positions = json.int_or("original_positions", rotary.original_positions);
  // Earlier versions did not store it for longrope.
  if (rotary.scaling == Scaling::longrope) rotary.factor = double(max_positions) / double(rotary.original_positions);
  rotary.factor = json.number_or("factor", rotary.factor);
  return rotary;
}

}  // namespace

/// Always writes GPT-2's keys. Writes every other key only if its value differs from GPT-2's, so that versions that
/// support only GPT-2 can read manifests of GPT-2 models.
Json config_to_json(const GptConfig& config) {
  const GptConfig gpt2;
  Json out = Json::object();
  for (const auto& field : kSizes) out.set(field.key, config.*field.member);
  out.set("normalization", name_in(kNorms, config.norm));
  out.set("activation", name_in(kActivationNames, config.activation));
  out.set("position_embedding", name_in(kPositions, config.position_embedding));
  out.set("linear_bias", config.bias == LinearBias{});
  out.set("tied_embeddings", config.tied_embeddings);
  out.set("norm_epsilon", config.norm_eps);
  out.set("init_method_std", config.init_std);
  if (config.bias != LinearBias{}) {
    for (const auto& field : kBiases) out.set(field.key, config.bias.*field.member);
  }
  for (const auto& field : kSwitches) {
    if (config.*field.member != gpt2.*field.member) out.set(field.key, config.*field.member);
  }
  if (config.sliding_window != 0) {
    out.set("sliding_window", config.sliding_window);
    out.set("first_window_layer", config.first_window_layer);
  }
  if (config.position_embedding == PositionEmbedding::rotary) out.set("rotary", rotary_to_json(config.rotary));
  return out;
}

GptConfig config_from_json(const Json& json) {
  GptConfig config;
  std::vector<std::string> problems;
  for (const auto& field : kSizes) {
    std::int64_t value = json.at(field.key).as_int();
    if (value < 1 || value > kMaxDimension)
      problems.push_back(cat(field.key, " is ", value, ", but must be from 1 to ", kMaxDimension));
    config.*field.member = value;
  }
  config.norm = value_of<Norm>(kNorms, json, "normalization");
  config.activation = value_of<Activation>(kActivationNames, json, "activation");
  config.position_embedding = value_of<PositionEmbedding>(kPositions, json, "position_embedding");
  const bool linear_bias = json.at("linear_bias").as_bool();
  for (const auto& field : kBiases) config.bias.*field.member = json.bool_or(field.key, linear_bias);
  for (const auto& field : kSwitches) config.*field.member = json.bool_or(field.key, config.*field.member);
  config.sliding_window = json.int_or("sliding_window", 0);
  config.first_window_layer = json.int_or("first_window_layer", 0);
  if (config.position_embedding == PositionEmbedding::rotary)
    config.rotary = rotary_from_json(json.at("rotary"), config.max_positions);
  config.tied_embeddings = json.at("tied_embeddings").as_bool();
  config.norm_eps = json.at("norm_epsilon").as_number();
  config.init_std = json.at("init_method_std").as_number();
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    problems.push_back(cat("norm_epsilon is ", config.norm_eps, ", but must be above 0 and below 1"));
  if (!(config.init_std >= 0 && config.init_std < 1e3))
    problems.push_back(cat("init_method_std is ", config.init_std, ", but must be at least 0 and below 1000"));
  if (problems.empty()) problems = config.problems();
  if (!problems.empty()) fail(Exit::bad_data, "config: ", join(problems, "; "));
  return config;
}

}  // namespace mtl
