// SentencePiece's normalization of a text: rules, whitespace and the dummy prefix.
//
// - The longest user-defined symbol that matches is copied unchanged.
// - Otherwise, the longest rule of precompiled_charsmap that matches replaces the matched text. (The map is a u32
//   little-endian size, a Darts-clone double-array trie of this size, and replacements that end in U+0000; the trie's
//   values are their offsets.)
// - Otherwise, one character is copied; an invalid byte becomes U+FFFD.
// - remove_extra_whitespaces removes leading, trailing and repeated blanks.
// - escape_whitespaces replaces a blank by U+2581. add_dummy_prefix adds a blank at the start (or, as a suffix, at the
//   end).
//
// The result contains the single byte kSpace, which never occurs in UTF-8, in place of U+2581. Words are therefore
// shorter, and the end of a word can be found by a single byte. to_internal() and to_text() convert. Scores use lengths
// in UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/sentencepiece_model.h"

namespace mtl {

inline constexpr char kSpace = '\xFF';
inline constexpr std::string_view kSpaceText = "\xE2\x96\x81";  // U+2581

/// Returns the length in bytes of a character that starts with `lead`, in text with kSpace.
inline std::size_t internal_length(char lead) {
  unsigned char byte = lead;
  return byte < 0xC0 || byte == 0xFF ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

std::string to_internal(std::string_view text);
std::string to_text(std::string_view internal);

class SentencePieceNormalizer {
 public:
  /// A normalized text. The buffer is reused for the next text and only grows.
  struct Result {
    std::string bytes;
    std::size_t size = 0;
    std::string_view view() const { return {bytes.data(), size}; }

    /// Returns the address at which to write `count` more bytes. The caller must add them to `size`.
    char* reserve(std::size_t count) {
      if (bytes.size() - size < count) bytes.resize(2 * bytes.size() + count);
      return bytes.data() + size;
    }
    void append(char byte) { *reserve(1) = byte, ++size; }
  };

  /// Throws Error(bad_data), with a message that starts with `source`, if the rules are damaged or there are too many
  /// symbols.
  SentencePieceNormalizer(const SentencePieceRules& rules, bool whitespace_as_suffix,
                          const std::vector<std::string_view>& user_defined, std::string source);
  /// Replaces `out`. Throws Error(bad_data) if a rule that it applies is damaged.
  void normalize(std::string_view text, Result& out) const;

 private:
  struct Prefix {
    std::string_view text;   // the normalized prefix
    std::size_t length = 0;  // of the prefix before normalization, in bytes
  };
  enum class Byte : char { other, copied, blank };

  void read_charsmap(std::string_view charsmap);
  void classify_bytes();
  bool steps_to(std::uint32_t& node, unsigned char byte) const;
  Prefix next_prefix(std::string_view text) const;
  std::string_view replacement(std::uint32_t offset) const;
  std::size_t append_plain(std::string_view text, bool& after_blank, Result& out) const;
  void append_prefix(std::string_view text, bool& after_blank, Result& out) const;

  bool add_dummy_prefix_, remove_extra_, as_suffix_;
  char blank_;  // what a blank becomes: kSpace or ' '
  std::string source_;
  ByteTrie user_defined_;
  std::vector<std::uint32_t> units_;  // the double-array trie; empty: no rules
  std::string replacements_;
  Byte bytes_[256];  // what to do with a byte that precedes ASCII
};

}  // namespace mtl
