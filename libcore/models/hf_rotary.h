// Reads and writes the config.json keys for rotary positions and attention windows, in every spelling. Part of the
// implementation of hf_config.h.
#pragma once

#include "models/hf_family.h"
#include "models/hf_values.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Fills in config.rotary; config.max_positions must already be set. Adds a problem to `values` for each key that is
/// missing, contradictory or not supported.
void read_hf_rotary(const HfValues& values, const HfRotary& family, GptConfig& config);
void write_hf_rotary(const GptConfig& config, const HfRotary& family, Json& hf_config);

/// Fills in config.sliding_window and config.first_window_layer; config.num_layers must already be set. Adds problems
/// like read_hf_rotary().
void read_hf_window(const HfValues& values, HfWindow family, GptConfig& config);
void write_hf_window(const GptConfig& config, HfWindow family, Json& hf_config);

}  // namespace mtl
