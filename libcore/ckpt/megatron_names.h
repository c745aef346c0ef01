// Megatron-LM's parameter names in every release that wrote torch checkpoints, and the axis of each parameter that
// tensor parallelism splits. To support a new name, add a row to a table in megatron_names.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

/// How tensor parallelism splits a parameter among the ranks.
enum class MegatronSplit {
  none,     // every rank has the whole parameter
  rows,     // axis 0: outputs of a linear, tokens of an embedding
  columns,  // axis 1: inputs of a linear
};

struct MegatronName {
  std::string canonical;              // name in canonical.h, without "layers.N."
  std::optional<std::int64_t> layer;  // counted from 0 in each chunk of each stage; empty outside of layers
  MegatronSplit split = MegatronSplit::none;
};

/// Parses the name of a parameter: the path of keys in the model dict of a file, joined by dots. Returns empty if the
/// tables lack the name.
std::optional<MegatronName> parse_megatron_name(std::string_view name);

/// Returns megatron-core's name of a canonical parameter. For example, "layers.3.norm1.weight" is called
/// "decoder.layers.3.self_attention.linear_qkv.layer_norm_weight" with Transformer Engine, which fuses a norm with the
/// linear after the norm, and "decoder.layers.3.input_layernorm.weight" in the local implementation.
std::string megatron_core_name(std::string_view canonical, bool transformer_engine);

/// True for entries that are not parameters: _extra_state and rotary frequencies.
bool is_megatron_buffer(std::string_view name);

}  // namespace mtl
