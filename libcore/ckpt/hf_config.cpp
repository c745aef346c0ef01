#include "ckpt/hf_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "ckpt/canonical.h"
#include "ckpt/hf_rotary.h"

namespace mtl {

namespace {

struct ActivationName {
  const char* hf;
  Activation activation;
};

/// transformers' names for the supported activations. If an activation has more than one name, mtl writes the first.
constexpr ActivationName kHfActivations[] = {{"gelu_new", Activation::gelu_tanh},
                                             {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                             {"gelu_fast", Activation::gelu_tanh},
                                             {"gelu_python_tanh", Activation::gelu_tanh},
                                             {"gelu_accurate", Activation::gelu_tanh},
                                             {"gelu", Activation::gelu_erf},
                                             {"gelu_python", Activation::gelu_erf},
                                             {"relu", Activation::relu},
                                             {"relu2", Activation::squared_relu},
                                             {"silu", Activation::silu},
                                             {"swish", Activation::silu}};

void read_sizes(const HfFamily& family, const Json& json, GptConfig& config, std::vector<std::string>& problems) {
  for (const HfSize& size : family.sizes) {
    std::int64_t& member = config.*size.member;
    const char* key = json.find(size.key) == nullptr && size.older_key != nullptr ? size.older_key : size.key;
    const bool is_absent = json.find(key) == nullptr;
    member = json.int_or(key, is_absent ? size.fallback : 0);
    const bool is_derived = is_absent ? size.fallback == 0 : json.find(key)->is_null();
    if (!is_derived && (member < 1 || member > kMaxDimension))
      problems.push_back(cat(key, " is ", member, "; it must be from 1 to ", kMaxDimension));
  }
}

void read_activation(const HfFamily& family, const Json& json, GptConfig& config, std::vector<std::string>& problems) {
  const std::string name = json.string_or(family.activation_key, family.activation);
  auto found = std::find_if(std::begin(kHfActivations), std::end(kHfActivations),
                            [&](const ActivationName& entry) { return name == entry.hf; });
  if (found != std::end(kHfActivations)) {
    config.activation = found->activation;
    return;
  }
  std::vector<std::string> names;
  for (const ActivationName& entry : kHfActivations) names.emplace_back(entry.hf);
  problems.push_back(
      cat(family.activation_key, " is '", name, "', which is not supported; use one of ", join(names, ", ")));
}

void read_switches(const HfFamily& family, const Json& json, GptConfig& config, std::vector<std::string>& problems) {
  config.tied_embeddings = json.bool_or("tie_word_embeddings", family.tied);
  for (const HfBias& bias : family.biases) {
    for (bool LinearBias::*member : bias.members) config.bias.*member = json.bool_or(bias.key, bias.fallback);
  }
  if (family.parallel_residual_key != nullptr)
    config.parallel_residual = json.bool_or(family.parallel_residual_key, true);
  for (const HfFixedSwitch& entry : family.fixed) {
    if (json.bool_or(entry.key, entry.value) != entry.value)
      problems.push_back(cat(entry.key, " is ", !entry.value, ", which is not supported"));
  }
  if (const Json* quantized = json.find("quantization_config"); quantized != nullptr && !quantized->is_null())
    problems.emplace_back("quantization_config is given; quantized models are not supported");
}

GptConfig read_config(const HfFamily& family, const Json& json, std::vector<std::string>& problems) {
  GptConfig config = family.base;
  read_sizes(family, json, config, problems);
  config.norm_eps = json.number_or(family.norm_eps_key, family.norm_eps);
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    problems.push_back(cat(family.norm_eps_key, " is ", config.norm_eps, "; it must be above 0 and below 1"));
  config.init_std = json.number_or("initializer_range", 0.02);
  read_activation(family, json, config, problems);
  read_switches(family, json, config, problems);
  if (config.position_embedding == PositionEmbedding::rotary) read_hf_rotary(json, family.rotary, config, problems);
  read_hf_window(json, family.window, config, problems);
  if (problems.empty()) config.complete();
  return config;
}

/// Returns the manifest entries in which `config` differs from `other`, such as "qk_norm true" or "no rotary".
std::vector<std::string> differences(const GptConfig& config, const GptConfig& other) {
  std::vector<std::string> out;
  const Json entries = config_to_json(config), other_entries = config_to_json(other);
  for (const auto& [key, value] : entries.as_object()) {
    const Json* other_value = other_entries.find(key);
    if (other_value == nullptr || other_value->dump() != value.dump()) out.push_back(cat(key, " ", value.dump()));
  }
  for (const auto& [key, value] : other_entries.as_object()) {
    if (entries.find(key) == nullptr) out.push_back(cat("no ", key));
  }
  return out;
}

}  // namespace

const HfFamily& hf_family_of(const Json& hf_config) {
  const std::string model_type = hf_config.string_or("model_type", "");
  if (const HfFamily* family = find_hf_family(model_type)) return *family;
  std::vector<std::string> known;
  for (const HfFamily& family : hf_families()) known.emplace_back(family.model_type);
  fail(Exit::bad_data, model_type.empty() ? "model_type is missing" : cat("model_type is '", model_type, "'"),
       "; this version reads ", join(known, ", "));
}

GptConfig gpt_config_from_hf(const Json& hf_config) {
  std::vector<std::string> problems;
  GptConfig config = read_config(hf_family_of(hf_config), hf_config, problems);
  if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
  return config;
}

bool has_architecture(const HfFamily& family, const GptConfig& config) {
  std::vector<std::string> problems;
  return read_config(family, hf_config_for(family, config), problems) == config && problems.empty();
}

const HfFamily& hf_family_for(const GptConfig& config) {
  std::string closest;
  std::vector<std::string> lacks;
  for (const HfFamily& family : hf_families()) {
    if (has_architecture(family, config)) return family;
    std::vector<std::string> problems;
    std::vector<std::string> found = differences(config, read_config(family, hf_config_for(family, config), problems));
    found.insert(found.end(), problems.begin(), problems.end());
    if (!closest.empty() && found.size() >= lacks.size()) continue;
    closest = family.model_type;
    lacks = std::move(found);
  }
  fail(Exit::bad_data, "no family of Hugging Face models has this architecture; the closest, ", closest,
       ", does not have: ", join(lacks, ", "));
}

Json hf_config_for(const HfFamily& family, const GptConfig& config) {
  Json out = Json::object({{"architectures", Json::array().push(family.architecture)},
                           {"model_type", family.model_type},
                           {family.norm_eps_key, config.norm_eps},
                           {"initializer_range", config.init_std},
                           {"tie_word_embeddings", config.tied_embeddings}});
  for (const HfSize& size : family.sizes) out.set(size.key, config.*size.member);
  for (const ActivationName& entry : kHfActivations) {
    if (entry.activation != config.activation || out.find(family.activation_key) != nullptr) continue;
    out.set(family.activation_key, entry.hf);
  }
  for (const HfBias& bias : family.biases) out.set(bias.key, config.bias.*bias.members.front());
  if (family.parallel_residual_key != nullptr) out.set(family.parallel_residual_key, config.parallel_residual);
  if (family.base.position_embedding == PositionEmbedding::rotary) write_hf_rotary(config, family.rotary, out);
  write_hf_window(config, family.window, out);
  return out;
}

}  // namespace mtl
