// The character classes in GPT-2's pre-token pattern: \p{L}, \p{N}, \s, and everything else.
//
// Unicode 16.0, as in Hugging Face's tokenizers and tiktoken. Whitespace is Unicode's White_Space (25 code points).
// Marks (\p{M}) are `other`: they break words.
#pragma once

#include <array>
#include <cstdint>

namespace mtl {

enum class CharClass : std::uint8_t { other, letter, number, space };

/// Two bits per code point.
extern const std::array<std::uint8_t, 0x110000 / 4> kUnicodeClasses;

/// `code` must not exceed 0x10FFFF.
inline CharClass class_of(std::uint32_t code) {
  return static_cast<CharClass>(kUnicodeClasses[code >> 2] >> (code & 3) * 2 & 3);
}

}  // namespace mtl
