// The tokenizer for running a model: named by flags, or stored with the model.
#pragma once

#include <memory>

#include "ckpt/model_source.h"
#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// For a Flags::check function: check_tokenizer_flags if a tokenizer flag other than --vocab-size was given.
void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// Returns what flags add to the model's files: its heads, and --vocab-size unless a flag names a tokenizer, which has
/// its own size.
ModelSupplement supplement_of(const TokenizerOptions& given, std::optional<std::int64_t> num_attention_heads);

/// Loads the tokenizer that flags name, else the one stored with the model; null without either. Throws Error(usage) if
/// it has more ids than the model, or if --vocab-size contradicts the model. If the model does not state its vocabulary
/// size, drops the rows beyond the tokenizer's, or without a tokenizer warns that some may be padding.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console);

}  // namespace mtl
