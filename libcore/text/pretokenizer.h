// Splits text into GPT-2's pre-tokens, without a regular-expression engine:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A pre-token is a contraction; otherwise a run of letters, of numbers or of other characters, including one preceding
// blank if there is one; otherwise whitespace. If another character follows the whitespace, the pre-token excludes the
// last whitespace character. That character starts the next run if it is a blank, and is a separate pre-token
// otherwise. The concatenated pre-tokens equal the text. Bytes that are not UTF-8 count as other characters.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mtl {

/// Splits `text` from the start and writes the end of each pre-token, until `ends` is full or the text ends. Returns
/// the number of pre-tokens. The remaining text starts at ends[count - 1].
std::size_t split_pretokens(std::string_view text, std::span<const char*> ends);

/// Calls `use(pretoken)` for every pre-token in the text.
template <class Use>
void for_each_pretoken(std::string_view text, Use&& use) {
  const char* ends[256];
  while (!text.empty()) {
    std::size_t count = split_pretokens(text, ends);
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t length = ends[i] - text.data();
      use(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
}

}  // namespace mtl
