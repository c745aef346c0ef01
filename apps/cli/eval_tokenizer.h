// Chooses the tokenizer with which to run a model: the tokenizer that flags name, or the tokenizer stored with the
// model.
#pragma once

#include <memory>

#include "ckpt/model_source.h"
#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// For a Flags::check function: calls check_tokenizer_flags if a tokenizer flag other than --vocab-size was given.
void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// Returns the settings that the flags add to the model's files: the number of attention heads and, if no flag names a
/// tokenizer, --vocab-size. (If a flag names a tokenizer, --vocab-size is the size of that tokenizer.)
ModelSupplement supplement_of(const TokenizerOptions& given, std::optional<std::int64_t> num_attention_heads);

/// Loads the tokenizer that flags name, otherwise the tokenizer stored with the model. Returns null if there is no
/// tokenizer. Throws Error(usage) if the tokenizer has more ids than the model, or if --vocab-size contradicts the
/// model. If the files of the model do not state the vocabulary size, drops the embedding rows beyond the ids of the
/// tokenizer; without a tokenizer, warns that some rows may be padding.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console);

}  // namespace mtl
