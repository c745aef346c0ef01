// Decodes UTF-8 character by character, replaces invalid bytes, and recognizes other encodings.
//
// In ill-formed input, each maximal prefix of a well-formed character, at least one byte long, becomes one U+FFFD.
// Unicode recommends this, and Python's errors="replace" does it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtl {

/// Returns the byte as a number from 0 to 255, even if char is signed.
constexpr unsigned char byte_of(char c) { return static_cast<unsigned char>(c); }

/// U+FFFD.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// A decoded character. Invalid ones have the code U+FFFD, which is neither a letter nor a number nor whitespace.
struct Utf8Char {
  std::uint32_t code = 0xFFFD;
  int length = 1;  // in bytes, at least 1
  bool valid = false;
  bool cut_short = false;  // invalid only because the input ends too early
};

/// Decodes the character at `at`. Requires `at` < `end`.
inline Utf8Char next_utf8(const char* at, const char* end) {
  unsigned char lead = *at;
  if (lead < 0x80) return {.code = lead, .length = 1, .valid = true};
  if (lead < 0xC2 || lead > 0xF4) return {};
  int tails = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  std::uint32_t code = lead & (0x3Fu >> tails);
  // The first continuation byte may have a narrower range than the others, which excludes overlong forms, surrogates,
  // and code points above U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i <= tails; ++i) {
    if (at + i == end) return {.length = i, .cut_short = true};
    unsigned char byte = at[i];
    if (byte < low || byte > high) return {.length = i};
    low = 0x80, high = 0xBF;
    code = code << 6 | (byte & 0x3Fu);
  }
  return {.code = code, .length = tails + 1, .valid = true};
}

/// Returns the character that ends just before offset `at` >= 1, or an invalid one-byte character if no complete one
/// ends there.
inline Utf8Char utf8_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (byte_of(text[begin]) & 0xC0) == 0x80) --begin;
  Utf8Char last = next_utf8(text.data() + begin, text.data() + at);
  return last.valid && begin + last.length == at ? last : Utf8Char{};
}

/// Returns `bytes` with U+FFFD for all invalid UTF-8.
std::string decode_lossy(std::string_view bytes);

/// What the first bytes of a text show instead of plain UTF-8: another encoding, or a byte order mark.
struct OtherEncoding {
  const char* what;    // "UTF-16 text"
  const char* filter;  // the command that converts it; add the name of the file
};
/// Returns null for UTF-8 without a byte order mark, and for what may be no text at all.
const OtherEncoding* find_other_encoding(std::string_view head);
/// Throws Error(bad_data) that names `path` and how to convert the file if its `text` has such an encoding.
void refuse_other_encoding(const std::string& path, std::string_view text);

/// Decodes bytes that arrive in parts, holding back incomplete characters.
class Utf8Stream {
 public:
  /// Returns all characters that `bytes` complete. Invalid bytes become U+FFFD.
  std::string push(std::string_view bytes);
  /// Must be called at the end. Returns U+FFFD if an incomplete character is left, otherwise "".
  std::string finish();

 private:
  std::string held_;
};

}  // namespace mtl
