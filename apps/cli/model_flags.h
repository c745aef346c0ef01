// Flags for loading a model: settings its files may lack, and the dtype to compute in.
#pragma once

#include "ckpt/model_source.h"
#include "cli/flags.h"

namespace mtl {

/// Adds --num-attention-heads.
void add_heads_flag(Flags& flags, std::optional<std::int64_t>& heads);
/// Adds --dtype, which a model computes in.
void add_compute_flag(Flags& flags, std::string& dtype);
/// Returns the dtype for --dtype NAME.
DType compute_dtype(const std::string& name);
/// Adds --num-attention-heads, and --vocab-size for programs without tokenizer flags.
void add_supplement_flags(Flags& flags, ModelSupplement& given);

}  // namespace mtl
