// The tokenizer of a model that is run: flags name it, or it lies beside the model.
#pragma once

#include <memory>

#include "ckpt/model_source.h"
#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// For a Flags::check function: a problem for every tokenizer flag that lacks another one.
/// Returns those that were given.
std::vector<std::string> check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// Null when neither names one. Throws UsageError when it has more ids than the model.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, const ModelSource& source);

}  // namespace mtl
