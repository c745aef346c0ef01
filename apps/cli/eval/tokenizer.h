// Chooses the tokenizer to run a model with: the one that flags name, or the one stored with the model.
#pragma once

#include <memory>

#include "cli/flags.h"
#include "models/model_source.h"
#include "text/tokenizer.h"

namespace mtl {

/// For Flags::check: calls check_tokenizer_flags if any tokenizer flag other than --vocab-size was given.
void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// Returns the settings that flags add to the model's files: the number of attention heads and, if no flag names a
/// tokenizer, --vocab-size. (Otherwise --vocab-size belongs to that tokenizer.)
ModelSupplement supplement_of(const TokenizerOptions& given, std::optional<std::int64_t> num_attention_heads);

/// Loads the tokenizer that flags name, or else the one stored with the model. Returns null if there is none. The
/// tokenizer may have ids that the model lacks. Throws Error(usage) if --vocab-size contradicts the model. If the
/// model's files do not state the vocabulary size, drops embedding rows beyond the tokenizer's ids; without a
/// tokenizer, warns that some rows may be padding.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console);

}  // namespace mtl
