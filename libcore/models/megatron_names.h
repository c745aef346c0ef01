// Megatron-LM's parameter names in every release that wrote torch checkpoints, and the axis along which tensor
// parallelism splits each parameter. To support a new name, add a row to a table in megatron_names.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

/// How tensor parallelism splits a parameter among the ranks.
enum class MegatronSplit {
  none,     // every rank has the entire parameter
  rows,     // axis 0: a linear's outputs, an embedding's tokens
  columns,  // axis 1: a linear's inputs
};

struct MegatronName {
  std::string canonical;              // name in canonical.h, without "layers.N."
  std::optional<std::int64_t> layer;  // counted from 0 in each chunk on each stage; empty outside layers
  MegatronSplit split = MegatronSplit::none;
};

/// Parses a parameter name: the path of keys in a file's model dict, joined by dots. Returns empty if the name is not
/// in the tables.
std::optional<MegatronName> parse_megatron_name(std::string_view name);

/// Returns megatron-core's name for a canonical parameter. For example, "layers.3.norm1.weight" is called
/// "decoder.layers.3.self_attention.linear_qkv.layer_norm_weight" with Transformer Engine, which fuses a norm with the
/// next linear, and "decoder.layers.3.input_layernorm.weight" in the local implementation.
std::string megatron_core_name(std::string_view canonical, bool transformer_engine);

/// True for entries that are not parameters: _extra_state and rotary frequencies.
bool is_megatron_buffer(std::string_view name);

}  // namespace mtl
