// Megatron-LM's parameter names in every release that wrote torch checkpoints, and the axis that tensor parallelism
// splits. To support a new name, add a row to a table in megatron_names.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

/// The division of a parameter among tensor parallel ranks.
enum class MegatronSplit {
  none,     // every rank has all of it
  rows,     // axis 0: outputs of a linear, tokens of an embedding
  columns,  // axis 1: inputs of a linear
};

struct MegatronName {
  std::string canonical;              // canonical.h; without "layers.N."
  std::optional<std::int64_t> layer;  // counted from 0 in each chunk of each stage; empty outside of layers
  MegatronSplit split = MegatronSplit::none;
};

/// `name` is the path of keys in the file's model, joined by dots. Empty for a name that the table lacks.
std::optional<MegatronName> parse_megatron_name(std::string_view name);

/// megatron-core's name of a canonical parameter: "layers.3.norm1.weight" is
/// "decoder.layers.3.self_attention.linear_qkv.layer_norm_weight" with Transformer Engine, which fuses a norm with the
/// linear after it, and "decoder.layers.3.input_layernorm.weight" in the local implementation.
std::string megatron_core_name(std::string_view canonical, bool transformer_engine);

/// True for entries that are not parameters: _extra_state, rotary frequencies.
bool is_megatron_buffer(std::string_view name);

}  // namespace mtl
