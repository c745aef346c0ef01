#include "cli/flags/model_tokenizer.h"

#include "models/companion_files.h"

namespace mtl {

std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerOptions& given, const std::string& model_folder) {
  if (given.names_tokenizer()) return load_tokenizer(given);
  std::optional<TokenizerOptions> stored;
  if (!model_folder.empty()) {
    check_companion_files(model_folder);
    stored = find_tokenizer(model_folder);
  }
  return stored ? load_tokenizer(*stored) : nullptr;
}

}  // namespace mtl
