// Reads and writes config.json of a Hugging Face folder, for every family of hf_family.h.
//
// Both spellings are read: transformers 5 has rope_parameters, transformers before it rope_theta, rope_scaling, and
// GPT-NeoX rotary_emb_base and rotary_pct. Both are written.
#pragma once

#include "base/json.h"
#include "ckpt/hf_family.h"
#include "nn/gpt_config.h"

namespace mtl {

/// The family that model_type names. Throws Error(bad_data) with the list of known ones.
const HfFamily& hf_family_of(const Json& hf_config);

/// The configuration that a config.json describes. Throws Error(bad_data) with everything that mtl would compute
/// differently, each by its key. Keys that are absent have transformers' defaults. Whether the sizes make a model is
/// for GptConfig::problems.
GptConfig gpt_config_from_hf(const Json& hf_config);

/// True if the family's config.json can describe this architecture.
bool has_architecture(const HfFamily& family, const GptConfig& config);
/// The first family that has this architecture. Throws Error when none has, with what the closest one lacks.
const HfFamily& hf_family_for(const GptConfig& config);

/// The architecture's keys of a config.json; without dtype, ids of tokens, and dropout.
Json hf_config_for(const HfFamily& family, const GptConfig& config);

}  // namespace mtl
