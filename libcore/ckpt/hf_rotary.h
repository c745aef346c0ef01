// Reads and writes the config.json keys for rotary positions and attention windows, in every spelling. Part of the
// implementation of hf_config.h.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/hf_family.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Fills in config.rotary; config.max_positions must already be set. Appends a message to `problems` for each key that
/// is missing, contradictory or not supported.
void read_hf_rotary(const Json& hf_config, const HfRotary& family, GptConfig& config,
                    std::vector<std::string>& problems);
void write_hf_rotary(const GptConfig& config, const HfRotary& family, Json& hf_config);

/// Fills in config.sliding_window and config.first_window_layer; config.num_layers must already be set. Appends
/// messages to `problems` like read_hf_rotary().
void read_hf_window(const Json& hf_config, HfWindow family, GptConfig& config, std::vector<std::string>& problems);
void write_hf_window(const GptConfig& config, HfWindow family, Json& hf_config);

}  // namespace mtl
