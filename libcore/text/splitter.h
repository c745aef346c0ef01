// Splits text into pre-tokens as specified in a tokenizer file, in one or more steps. Each step splits the preceding
// step's pre-tokens.
//
//   auto splitter = make_splitter(steps);    // one per thread
//   splitter->start(text);
//   while (std::size_t count = splitter->next(ends)) ...
//
// The concatenated pre-tokens equal the text. text/pretokenizer.h implements GPT-2's pattern, text/split_pattern.h
// implements Llama 3's pattern and its family, and text/regex.h implements all other patterns, several times more
// slowly.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/split_pattern.h"

namespace mtl {

class Splitter {
 public:
  virtual ~Splitter() = default;
  /// Starts a text, which must stay valid until its last pre-token has been returned.
  virtual void start(std::string_view text) = 0;
  /// Writes the ends of the next pre-tokens and returns how many there are, or 0 at the end of the text.
  virtual std::size_t next(std::span<const char*> ends) = 0;
};

/// GPT-2's pattern.
struct SplitGpt2 {};
/// Separates digits (\p{N}) from other text, one by one or in runs.
struct SplitDigits {
  bool one_by_one = true;
};
/// Each match is a pre-token, and so is the text between two matches.
struct SplitRegex {
  std::shared_ptr<const Regex> regex;
};
using SplitStep = std::variant<SplitGpt2, SplitRules, SplitDigits, SplitRegex>;

/// Returns the fastest step that splits by `pattern`. Throws Error(bad_data) for a pattern that text/regex.h rejects.
SplitStep split_step(std::string_view pattern);

/// Without steps, the text is one pre-token.
std::unique_ptr<Splitter> make_splitter(const std::vector<SplitStep>& steps);

}  // namespace mtl
