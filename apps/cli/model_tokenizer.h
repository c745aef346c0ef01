// Chooses the tokenizer of a tool: the tokenizer that flags name, otherwise the tokenizer stored with the model.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace mtl {

/// Returns the tokenizer. Returns null if no flag names a tokenizer and `model_folder`, which may be empty, does not
/// contain one.
std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerOptions& given, const std::string& model_folder);

}  // namespace mtl
