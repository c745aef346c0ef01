#include "text/pretokenizer.h"

#include <array>
#include <bit>
#include <cstring>

#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace mtl {

namespace {

/// Class of each byte; beyond ASCII it takes more than one byte to know.
constexpr std::uint8_t kBeyondAscii = 0xFF;
constexpr auto kByteClasses = [] {
  std::array<std::uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool number = c >= '0' && c <= '9';
    bool space = c == ' ' || (c >= '\t' && c <= '\r');
    CharClass value = letter   ? CharClass::letter
                      : number ? CharClass::number
                      : space  ? CharClass::space
                               : CharClass::other;
    table[static_cast<std::size_t>(c)] = c < 0x80 ? static_cast<std::uint8_t>(value) : kBeyondAscii;
  }
  return table;
}();

struct ClassedChar {
  CharClass value;
  int length;
};

ClassedChar class_at(const char* at, const char* end) {
  std::uint8_t known = kByteClasses[static_cast<unsigned char>(*at)];
  if (known != kBeyondAscii) [[likely]]
    return {static_cast<CharClass>(known), 1};
  Utf8Char next = next_utf8(at, end);
  return {next.valid ? class_of(next.code) : CharClass::other, next.length};
}

/// The end of the run of characters of one class that reaches to `at`.
const char* run_end(const char* at, const char* end, CharClass value) {
  while (at < end) {
    std::uint8_t known = kByteClasses[static_cast<unsigned char>(*at)];
    if (known == static_cast<std::uint8_t>(value)) {
      ++at;
    } else if (known != kBeyondAscii) {
      return at;
    } else {
      ClassedChar next = class_at(at, end);
      if (next.value != value) return at;
      at += next.length;
    }
  }
  return end;
}

/// Length of 's 't 'm 'd 're 've 'll at an apostrophe, or 0.
int contraction_length(const char* at, const char* end) {
  char first = end - at > 1 ? at[1] : '\0';
  char second = end - at > 2 ? at[2] : '\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

/// The end of white space that begins at `at`. Its last character belongs to what follows, unless nothing does or
/// there is no other.
const char* space_end(const char* at, const char* end) {
  const char* last = at;
  const char* next = at;
  while (next < end) {
    ClassedChar here = class_at(next, end);
    if (here.value != CharClass::space) return last == at ? next : last;
    last = next;
    next += here.length;
  }
  return end;
}

/// How many of the 8 bytes at `at` are ASCII letters before the first that is not; all eight at once.
std::size_t letters_in_word(const char* at) {
  constexpr std::uint64_t kEach = 0x0101010101010101, kHigh = 0x80 * kEach;
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t bytes;
  std::memcpy(&bytes, at, 8);
  std::uint64_t folded = (bytes | 0x20 * kEach) & ~kHigh;
  std::uint64_t from_a = folded + (0x80 - 'a') * kEach;  // the high bit says: at least 'a'
  std::uint64_t beyond_z = folded + (0x80 - 'z' - 1) * kEach;
  std::uint64_t letters = from_a & ~beyond_z & ~bytes & kHigh;
  return static_cast<std::size_t>(std::countr_zero(letters ^ kHigh)) / 8;
}

std::size_t letters_at(const char* at) {
  std::size_t first = letters_in_word(at), second = letters_in_word(at + 8);
  return first < 8 ? first : 8 + second;
}

const char* pretoken_end(const char* at, const char* end) {
  // Most pieces of most texts: perhaps a blank, then fewer than 16 ASCII letters, then another ASCII character.
  if (end - at > 17) [[likely]] {
    const char* word = at + (*at == ' ');
    std::size_t letters = letters_at(word);
    if (letters > 0 && letters < 16 && static_cast<unsigned char>(word[letters]) < 0x80) return word + letters;
  }
  if (*at == '\'') {
    if (int length = contraction_length(at, end); length > 0) return at + length;
  }
  if (*at == ' ' && at + 1 < end) {
    ClassedChar next = class_at(at + 1, end);
    if (next.value != CharClass::space) return run_end(at + 1 + next.length, end, next.value);
  }
  ClassedChar first = class_at(at, end);
  if (first.value == CharClass::space) return space_end(at, end);
  return run_end(at + first.length, end, first.value);
}

}  // namespace

std::size_t split_pretokens(std::string_view text, std::span<const char*> ends) {
  const char* at = text.data();
  const char* end = at + text.size();
  std::size_t count = 0;
  while (at < end && count < ends.size()) {
    at = pretoken_end(at, end);
    ends[count++] = at;
  }
  return count;
}

}  // namespace mtl
