// Reads and writes config.json in a Hugging Face folder, for every family in hf_family.h.
//
// We read and write both spellings of rotary positions: rope_parameters from transformers 5, and the older rope_theta
// and rope_scaling (in GPT-NeoX: rotary_emb_base and rotary_pct).
#pragma once

#include "base/json.h"
#include "models/hf_family.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Returns the family as which transformers reads a config.json, or nullptr if mtl does not have it. Usually the one in
/// model_type, but "mistral" with layer_types is ministral.
const HfFamily* find_hf_family_of(const Json& hf_config);
/// Like find_hf_family_of(), but throws Error(bad_data) that lists the known families.
const HfFamily& hf_family_of(const Json& hf_config);

/// Returns the configuration that a config.json describes. Missing keys get transformers' defaults. Throws
/// Error(bad_data) that lists, by key, every setting that mtl does not support (also hf_keys.cpp). Ignores keys that
/// transformers ignores, too. Does not check whether the sizes are consistent; GptConfig::problems() does.
GptConfig gpt_config_from_hf(const Json& hf_config);

/// Returns `config`'s rotary positions with the values of a rope_parameters object, for messages about a flag: adds
/// what is wrong to `problems`, also keys without an effect, and a missing original_max_position_embeddings, for which
/// transformers takes the number of positions. An absent rope_theta or partial_rotary_factor stays as in `config`,
/// whose number of positions must be set.
RotaryOptions rotary_from_hf(const Json& rope_parameters, const GptConfig& config, std::vector<std::string>& problems);

/// Returns the dropout in a config.json. Missing keys get transformers' defaults. Throws Error(bad_data) if a value is
/// not a probability.
ModelDropout dropout_from_hf(const Json& hf_config);
/// Sets the family's dropout keys. Dropout for which the family has no key is left out.
void set_hf_dropout(const HfFamily& family, const ModelDropout& dropout, Json& hf_config);

/// What a config.json describes.
struct HfDescription {
  std::string path;
  Json hf_config;
  GptConfig config;
  ModelDropout dropout;
};
/// Reads a config.json, or the one in a folder. Throws Error(bad_data) with its path if it describes a model that mtl
/// does not support, or contradicts itself.
HfDescription read_hf_description(const std::string& path);

/// True if the family's config.json can describe this architecture.
bool has_architecture(const HfFamily& family, const GptConfig& config);
/// Returns the first family that has this architecture. If there is none, throws Error(bad_data) that says what the
/// closest family does not support.
const HfFamily& hf_family_for(const GptConfig& config);

/// Returns the config.json keys that describe the architecture, but not dtype, token ids or dropout.
Json hf_config_for(const HfFamily& family, const GptConfig& config);

}  // namespace mtl
