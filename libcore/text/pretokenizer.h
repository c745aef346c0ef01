// Splits a text into GPT-2's pre-tokens, without a regular-expression engine:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A piece is a contraction; else a run of letters, of numbers or of other characters, with one blank before it if there
// is one; else whitespace, without its last character if another character follows: a blank begins the next run, any
// other whitespace is a piece of its own. The pieces, concatenated, are the text. Bytes that are not UTF-8 count as
// other characters.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mtl {

/// Cuts `text` from its start and writes the end of each piece, until `ends` is full or the text is done. Returns
/// the number of pieces; the text continues at ends[count - 1].
std::size_t split_pretokens(std::string_view text, std::span<const char*> ends);

/// Calls `use(piece)` for every piece of the text.
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
