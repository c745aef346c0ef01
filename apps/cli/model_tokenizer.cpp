#include "cli/model_tokenizer.h"

namespace mtl {

std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerOptions& given, const std::string& model_folder) {
  bool named =
      !given.type.empty() || !given.vocab_file.empty() || !given.merge_file.empty() || !given.tokenizer_model.empty();
  if (named) return load_tokenizer(given);
  std::optional<TokenizerOptions> stored;
  if (!model_folder.empty()) stored = find_tokenizer(model_folder);
  return stored ? load_tokenizer(*stored) : nullptr;
}

}  // namespace mtl
