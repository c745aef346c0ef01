// Rotary positions and attention windows in a config.json, in every spelling: parts of hf_config.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/hf_family.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Fills config.rotary; needs config.max_positions. Adds to `problems`, by key, what mtl would compute differently.
void read_hf_rotary(const Json& hf_config, const HfRotary& family, GptConfig& config,
                    std::vector<std::string>& problems);
void write_hf_rotary(const GptConfig& config, const HfRotary& family, Json& hf_config);

/// Likewise sliding_window and first_window_layer; needs num_layers.
void read_hf_window(const Json& hf_config, HfWindow family, GptConfig& config, std::vector<std::string>& problems);
void write_hf_window(const GptConfig& config, HfWindow family, Json& hf_config);

}  // namespace mtl
