// Flags for what a model's files may not hold.
#pragma once

#include "ckpt/model_source.h"
#include "cli/flags.h"

namespace mtl {

/// --num-attention-heads.
void add_heads_flag(Flags& flags, std::optional<std::int64_t>& heads);
/// --dtype: what a model computes in; float32 when absent.
void add_compute_flag(Flags& flags, std::string& dtype);
DType compute_dtype(const std::string& name);
/// --num-attention-heads, and --vocab-size for programs without tokenizer flags.
void add_supplement_flags(Flags& flags, ModelSupplement& given);

}  // namespace mtl
