// The tokenizer of a model that is run: flags name it, or it is stored with the model.
#pragma once

#include <memory>

#include "ckpt/model_source.h"
#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// For a Flags::check function: a problem for every tokenizer flag that lacks another one.
/// Returns those that were given.
std::vector<std::string> check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// The supplement that flags give to the files of the model: --vocab-size where no flag names a tokenizer, which has
/// its own size.
ModelSupplement supplement_of(const TokenizerOptions& given, std::optional<std::int64_t> num_attention_heads);

/// Null when neither names one. Throws UsageError when it has more ids than the model, or --vocab-size contradicts the
/// model. Drops the padding rows of a model that does not state its vocabulary, or warns of them.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console);

}  // namespace mtl
