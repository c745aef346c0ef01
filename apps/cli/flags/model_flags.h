// Flags for loading a model: settings its files may lack.
#pragma once

#include "cli/flags.h"
#include "models/model_source.h"

namespace mtl {

/// Adds --num-attention-heads.
void add_heads_flag(Flags& flags, std::optional<std::int64_t>& heads);
/// Adds --hf-config.
void add_hf_config_flag(Flags& flags, std::string& path, const Flags::Rule& rule = no_rule);
/// Adds --num-attention-heads, --hf-config, and --vocab-size for programs without tokenizer flags.
void add_supplement_flags(Flags& flags, ModelSupplement& given);

}  // namespace mtl
