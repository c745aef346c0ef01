// Reads and writes config.json of a Hugging Face folder, for every family of hf_family.h.
//
// Reads and writes both spellings of rotary positions: rope_parameters of transformers 5, and the older rope_theta and
// rope_scaling (GPT-NeoX: rotary_emb_base and rotary_pct).
#pragma once

#include "base/json.h"
#include "ckpt/hf_family.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Returns the family that model_type names. Throws Error(bad_data) that lists the known families if there is none.
const HfFamily& hf_family_of(const Json& hf_config);

/// The configuration that a config.json describes; absent keys have transformers' defaults. Throws Error(bad_data) that
/// lists, by key, everything that mtl would compute differently. GptConfig::problems, not this function, checks that
/// the sizes are consistent.
GptConfig gpt_config_from_hf(const Json& hf_config);

/// True if the family's config.json can describe this architecture.
bool has_architecture(const HfFamily& family, const GptConfig& config);
/// The first family that has this architecture. If none has, throws Error(bad_data) that lists what the closest lacks.
const HfFamily& hf_family_for(const GptConfig& config);

/// The keys of a config.json that describe the architecture, without dtype, token ids and dropout.
Json hf_config_for(const HfFamily& family, const GptConfig& config);

}  // namespace mtl
