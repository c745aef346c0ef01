// Reads and writes the rotary positions and attention windows of a config.json, in every spelling, for hf_config.h.
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

/// Fills config.sliding_window and config.first_window_layer; needs config.num_layers. Adds to `problems` as above.
void read_hf_window(const Json& hf_config, HfWindow family, GptConfig& config, std::vector<std::string>& problems);
void write_hf_window(const GptConfig& config, HfWindow family, Json& hf_config);

}  // namespace mtl
