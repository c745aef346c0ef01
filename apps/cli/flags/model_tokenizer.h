// Chooses a tool's tokenizer: the one that flags name, or else the one stored with the model.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace mtl {

/// Returns null if no flag names a tokenizer and `model_folder`, which may be empty, does not contain one.
std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerOptions& given, const std::string& model_folder);

}  // namespace mtl
