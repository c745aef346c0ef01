// Chooses a tool's tokenizer: the one that flags name, else the one stored with the model.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace mtl {

/// Returns the tokenizer; null if no flag names one and `model_folder` (may be empty) holds none.
std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerOptions& given, const std::string& model_folder);

}  // namespace mtl
