// The text of a completion, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace mtl {

class CompletionText {
 public:
  /// `stops` are ids without a text. `last` is the last id of the prompt, after which a tokenizer may decode another
  /// text than at the beginning. The tokenizer and `stops` must outlive this object.
  CompletionText(const Tokenizer& tokenizer, const std::vector<std::int32_t>& stops, std::int32_t last)
      : tokenizer_(tokenizer), stops_(stops), previous_(last) {}

  /// Returns all characters that the next token completes. For an id that the tokenizer, which may have fewer ids than
  /// the model, does not know, that is U+FFFD.
  std::string push(std::int32_t id);
  /// Must be called at the end. Returns U+FFFD if an incomplete character is left, otherwise "".
  std::string finish() { return text_.finish(); }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<std::int32_t>& stops_;
  std::int32_t previous_;
  Utf8Stream text_;
};

}  // namespace mtl
