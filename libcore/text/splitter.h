// Cutting a text into pre-tokens by what a tokenizer file asks for: one step, or several, each of which cuts the pieces
// of the one before it.
//
//   auto splitter = make_splitter(steps);    // one per thread
//   splitter->start(text);
//   while (std::size_t count = splitter->next(ends)) ...
//
// The pieces joined are the text. GPT-2's pattern is text/pretokenizer.h's, the family of Llama 3's is cut by hand
// (text/split_pattern.h), any other pattern by text/regex.h, several times more slowly.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/split_pattern.h"

namespace mtl {

class Splitter {
 public:
  virtual ~Splitter() = default;
  /// Begins with a text, which must live until the last of its pieces was taken.
  virtual void start(std::string_view text) = 0;
  /// Writes the ends of the next pieces and returns how many; 0 when the text is done.
  virtual std::size_t next(std::span<const char*> ends) = 0;
};

/// GPT-2's pattern.
struct SplitGpt2 {};
/// Digits apart from the rest: each by itself, or runs of them. Digits are \p{N}.
struct SplitDigits {
  bool one_by_one = true;
};
/// Each match is a piece, and so is what lies between two.
struct SplitRegex {
  std::shared_ptr<const Regex> regex;
};
using SplitStep = std::variant<SplitGpt2, SplitRules, SplitDigits, SplitRegex>;

/// The fastest way to cut at the matches of a pattern. Throws Error(bad_data) for one that text/regex.h refuses.
SplitStep split_step(std::string_view pattern);

/// Without steps, the text is one piece.
std::unique_ptr<Splitter> make_splitter(const std::vector<SplitStep>& steps);

}  // namespace mtl
