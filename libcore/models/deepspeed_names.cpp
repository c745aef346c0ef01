#include "models/deepspeed_names.h"

#include "base/str.h"

namespace mtl {

namespace {

using enum MegatronSplit;

struct ModuleRow {
  std::string_view name, canonical;
  MegatronSplit split = none;
};

/// Modules of GPT-NeoX's blocks. In its other names, they are Megatron-LM's.
constexpr ModuleRow kNeoxBlock[] = {
    {"input_layernorm.scale", "norm1.weight"},
    {"post_attention_layernorm.scale", "norm2.weight"},
    {"attention.query_key_value.weight", "attention.qkv.weight", rows},
    {"attention.query_key_value.bias", "attention.qkv.bias", rows},
    {"attention.dense.weight", "attention.out.weight", columns},
    {"attention.dense.bias", "attention.out.bias"},
    {"mlp.linear1.weight", "mlp.up.weight", rows},
    {"mlp.linear1.bias", "mlp.up.bias", rows},
    {"mlp.linear2.weight", "mlp.down.weight", columns},
    {"mlp.linear2.bias", "mlp.down.bias"},
    {"mlp.w1.weight", "mlp.gate.weight", rows},
    {"mlp.w3.weight", "mlp.up.weight", rows},
    {"mlp.w2.weight", "mlp.down.weight", columns},
};

/// The other modules of a pipeline. A final norm of Megatron-DeepSpeed is a module of its own, without a name.
constexpr ModuleRow kPipelineModules[] = {
    {"word_embeddings.weight", "embedding.tokens.weight", rows},
    {"position_embeddings.weight", "embedding.positions.weight"},
    {"weight", "final_norm.weight"},
    {"bias", "final_norm.bias"},
    {"lm_head.weight", "output.weight", rows},
};
constexpr ModuleRow kNeoxModules[] = {
    {"norm.weight", "final_norm.weight"},
    {"norm.bias", "final_norm.bias"},
    {"norm.scale", "final_norm.weight"},
    {"final_linear.weight", "output.weight", rows},
};

template <std::size_t N>
const ModuleRow* find_module(const ModuleRow (&table)[N], std::string_view name) {
  for (const ModuleRow& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool take_prefix(std::string_view& name, std::string_view prefix) {
  if (!starts_with(name, prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

/// Removes "N." from the front of the name. Empty if it does not start this way.
std::optional<std::int64_t> take_module_number(std::string_view& name) {
  const std::size_t dot = name.find('.');
  if (dot == 0 || dot > 5 || name.find_first_not_of("0123456789") != dot) return std::nullopt;
  const std::optional<std::int64_t> number = parse_int(std::string(name.substr(0, dot)));
  name.remove_prefix(dot + 1);
  return number;
}

DeepSpeedName named(std::string canonical, MegatronSplit split, bool is_neox) {
  DeepSpeedName out;
  out.canonical = std::move(canonical);
  out.split = split;
  out.is_neox = is_neox;
  return out;
}

std::optional<DeepSpeedName> in_block(std::string_view name) {
  if (const ModuleRow* row = find_module(kNeoxBlock, name)) return named(std::string(row->canonical), row->split, true);
  const std::optional<MegatronName> megatron = parse_megatron_name(cat("layers.0.", name));
  if (!megatron) return std::nullopt;
  return named(megatron->canonical, megatron->split, false);
}

}  // namespace

std::optional<DeepSpeedName> parse_deepspeed_name(std::string_view name) {
  take_prefix(name, "module.");
  std::optional<std::int64_t> number;
  if (take_prefix(name, "tied_modules.")) {
    name.remove_prefix(std::min(name.size(), name.find('.') + 1));
  } else {
    take_prefix(name, "sequential.");
    number = take_module_number(name);
    if (!number) {
      const std::optional<MegatronName> megatron = parse_megatron_name(name);
      if (!megatron) return std::nullopt;
      DeepSpeedName out = named(megatron->canonical, megatron->split, false);
      out.is_in_block = megatron->layer.has_value();
      out.block = megatron->layer;
      return out;
    }
  }
  for (const bool is_neox : {false, true}) {
    const ModuleRow* row = is_neox ? find_module(kNeoxModules, name) : find_module(kPipelineModules, name);
    if (row != nullptr) return named(std::string(row->canonical), row->split, is_neox);
  }
  std::optional<DeepSpeedName> out = number ? in_block(name) : std::nullopt;
  if (!out) return std::nullopt;
  out->is_in_block = out->is_module_number = true;
  out->block = number;
  return out;
}

bool is_deepspeed_buffer(std::string_view name) {
  return is_megatron_buffer(name) || ends_with(name, "rotary_emb.inv_freq") || ends_with(name, "attention.bias") ||
         ends_with(name, "attention.masked_bias");
}

}  // namespace mtl
