// Parameter names in DeepSpeed's checkpoints: Megatron-DeepSpeed's, which are Megatron-LM's names in modules or in a
// pipeline's numbered modules, and GPT-NeoX's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/megatron_names.h"

namespace mtl {

struct DeepSpeedName {
  std::string canonical;              // "norm1.weight" in a block, otherwise "embedding.tokens.weight"
  bool is_in_block = false;           // the name belongs to a transformer block
  std::optional<std::int64_t> block;  // the block's number: counted from 0, or the number of the pipeline's module
  bool is_module_number = false;
  bool is_neox = false;  // only GPT-NeoX uses the name
  MegatronSplit split = MegatronSplit::none;
};

/// Parses a parameter's name: "language_model.encoder.layers.0.input_layernorm.weight", "3.input_layernorm.weight",
/// "sequential.3.mlp.linear1.weight", "tied_modules.embed.word_embeddings.weight". Rows of a gated MLP that have a
/// matrix of their own (mlp.w1) are called "mlp.gate". Returns empty if the name is not in the tables.
std::optional<DeepSpeedName> parse_deepspeed_name(std::string_view name);

/// True for entries that are not parameters: frequencies of rotary positions, masks, _extra_state.
bool is_deepspeed_buffer(std::string_view name);

}  // namespace mtl
