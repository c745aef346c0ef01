// Helpers for the tokenizers' golden files, and GPT-2's tokenizer.
#pragma once

#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "tests/golden_lines.h"
#include "text/tokenizer.h"

namespace mtl {

inline std::vector<std::int32_t> ids_of(const Json& array) {
  std::vector<std::int32_t> out;
  for (const Json& id : array.as_array()) out.push_back(static_cast<std::int32_t>(id.as_int()));
  return out;
}

inline std::unique_ptr<Tokenizer> load_gpt2() {
  TokenizerOptions options;
  options.vocab_file = "../share/gpt2/vocab.json";
  options.merge_file = "../share/gpt2/merges.txt";
  return load_tokenizer(options);
}

}  // namespace mtl
