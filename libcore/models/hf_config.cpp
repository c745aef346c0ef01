#include "models/hf_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/str.h"
#include "models/canonical.h"
#include "models/hf_keys.h"
#include "models/hf_rotary.h"
#include "models/hf_values.h"

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

/// Returns the key that config.json uses for a size: its name or one of the aliases. Adds a problem for each alias
/// whose value differs from the key's.
const char* key_in_use(const HfSize& size, const HfValues& values) {
  const char* found = values.find(size.key) != nullptr ? size.key : nullptr;
  for (const char* alias : size.aliases) {
    if (values.find(alias) == nullptr) continue;
    if (found == nullptr) {
      found = alias;
    } else if (*values.find(alias) != *values.find(found)) {
      values.add_problem(alias, cat(", but ", found, " is ", values.find(found)->dump(), "; remove one of them"));
    }
  }
  return found == nullptr ? size.key : found;
}

void read_sizes(const HfFamily& family, const HfValues& values, GptConfig& config) {
  for (const HfSize& size : family.sizes) {
    std::int64_t& member = config.*size.member;
    const char* key = key_in_use(size, values);
    const bool is_absent = values.find(key) == nullptr;
    member = size.fallback;
    if (is_absent) continue;
    if (size.may_be_null && values.find(key)->is_null()) {
      member = 0;  // GptConfig::complete() derives the size
      continue;
    }
    const std::size_t problems = values.problem_count();
    member = values.integer(key, 0);
    if (values.problem_count() == problems && (member < 1 || member > kMaxDimension))
      values.add_problem(key, cat("; it must be from 1 to ", kMaxDimension));
  }
}

void read_activation(const HfFamily& family, const HfValues& values, GptConfig& config) {
  const std::size_t problems = values.problem_count();
  const std::string name = values.text(family.activation_key, family.activation);
  if (values.problem_count() > problems) return;
  auto found = std::ranges::find_if(kHfActivations, [&](const ActivationName& entry) { return name == entry.hf; });
  if (found != std::end(kHfActivations)) {
    config.activation = found->activation;
    return;
  }
  values.add_problem(family.activation_key,
                     cat(", but mtl supports only ", join(kHfActivations, ", ", &ActivationName::hf)));
}

void read_switches(const HfFamily& family, const HfValues& values, GptConfig& config) {
  config.tied_embeddings = values.boolean("tie_word_embeddings", family.tied);
  for (const HfBias& bias : family.biases) {
    const bool has_bias = values.boolean(bias.key, bias.fallback);
    for (bool LinearBias::*member : bias.members) config.bias.*member = has_bias;
  }
  if (family.parallel_residual_key != nullptr)
    config.parallel_residual = values.boolean(family.parallel_residual_key, true);
}

/// Adds a problem for each key in hf_keys.cpp that makes transformers compute something that mtl cannot.
void check_refused_keys(const HfFamily& family, const HfValues& values) {
  for (const HfRefusedKey& rule : hf_refused_keys()) {
    const Json* value = values.find(rule.key);
    if (value == nullptr || !includes_family(rule.families, family.model_type)) continue;
    const Json allowed = Json::parse(rule.allowed);
    if (std::ranges::count(allowed.as_array(), *value) == 0)
      values.add_problem(rule.key, cat("; mtl does not support ", rule.meaning));
  }
}

GptConfig read_config(const HfFamily& family, const Json& json, std::vector<std::string>& problems) {
  const HfValues values(json, "", problems);
  GptConfig config = family.base;
  read_sizes(family, values, config);
  config.norm_eps = values.number(family.norm_eps_key, family.norm_eps);
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    values.add_problem(family.norm_eps_key, "; it must be above 0 and below 1");
  config.init_std = values.number("initializer_range", 0.02);
  read_activation(family, values, config);
  read_switches(family, values, config);
  check_refused_keys(family, values);
  if (config.position_embedding == PositionEmbedding::rotary) read_hf_rotary(values, family.rotary, config);
  read_hf_window(values, family.window, config);
  if (problems.empty()) config.complete();
  return config;
}

/// Returns the manifest entries in which `config` differs from `other`, such as "qk_norm true" or "no rotary".
std::vector<std::string> differences(const GptConfig& config, const GptConfig& other) {
  std::vector<std::string> out;
  const Json entries = config_to_json(config), other_entries = config_to_json(other);
  for (const auto& [key, value] : entries.as_object()) {
    const Json* other_value = other_entries.find(key);
    if (other_value == nullptr || *other_value != value) out.push_back(cat(key, " ", value.dump()));
  }
  for (const auto& [key, value] : other_entries.as_object()) {
    if (entries.find(key) == nullptr) out.push_back(cat("no ", key));
  }
  return out;
}

}  // namespace

const HfFamily* find_hf_family_of(const Json& hf_config) {
  const std::string model_type = hf_config.string_or("model_type", "");
  // transformers reads such a file as Ministral, because its MistralConfig does not have layer_types.
  const bool is_ministral = model_type == "mistral" && hf_config.find("layer_types") != nullptr;
  return find_hf_family(is_ministral ? "ministral" : model_type);
}

const HfFamily& hf_family_of(const Json& hf_config) {
  if (const HfFamily* family = find_hf_family_of(hf_config)) return *family;
  const std::string model_type = hf_config.string_or("model_type", "");
  fail(Exit::bad_data, model_type.empty() ? "model_type is missing" : cat("model_type is '", model_type, "'"),
       ", but mtl reads only ", join(hf_families(), ", ", &HfFamily::model_type));
}

GptConfig gpt_config_from_hf(const Json& hf_config) {
  std::vector<std::string> problems;
  GptConfig config = read_config(hf_family_of(hf_config), hf_config, problems);
  if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
  return config;
}

ModelDropout dropout_from_hf(const Json& hf_config) {
  ModelDropout out;
  bool has_embedding = false;
  for (const HfDropout& dropout : hf_family_of(hf_config).dropouts) {
    out.*dropout.member = checked_dropout(dropout.key, hf_config.number_or(dropout.key, dropout.fallback));
    has_embedding |= dropout.member == &ModelDropout::embedding;
  }
  if (!has_embedding) out.embedding = out.hidden;
  return out;
}

void set_hf_dropout(const HfFamily& family, const ModelDropout& dropout, Json& hf_config) {
  for (const HfDropout& entry : family.dropouts) hf_config.set(entry.key, dropout.*entry.member);
}

HfDescription read_hf_description(const std::string& path) {
  HfDescription out;
  out.path = is_directory(path) ? path + "/config.json" : path;
  out.hf_config = Json::read(out.path);
  with_prefix(
      [&] {
        out.config = gpt_config_from_hf(out.hf_config);
        out.dropout = dropout_from_hf(out.hf_config);
        const std::vector<std::string> problems = out.config.problems();
        if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
      },
      out.path, ": ");
  return out;
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
       ", does not have: ", join(lacks, ", "), "; convert to another format");
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
