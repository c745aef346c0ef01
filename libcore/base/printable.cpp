#include "base/printable.h"

#include "base/json_cursor.h"
#include "base/utf8.h"

namespace mtl {

namespace {

/// Returns true for DEL and for C0 and C1 control characters.
bool is_control(std::string_view character) {
  const unsigned char first = character[0];
  if (character.size() == 2) return first == 0xC2 && byte_of(character[1]) < 0xA0;
  return character.size() == 1 && (first < 0x20 || first == 0x7F);
}

/// Returns true for U+202A to U+202E and U+2066 to U+2069, which reorder the text after them.
bool is_bidi_control(std::string_view character) {
  return (character >= "\u202A" && character <= "\u202E") || (character >= "\u2066" && character <= "\u2069");
}

/// Returns true for each plane's last two code points, such as U+FFFE and U+FFFF. In UTF-8 these end in BF BE or BF BF,
/// after a byte whose low four bits are ones.
bool is_noncharacter(std::string_view character) {
  if (character.size() < 3) return false;
  const std::string_view tail = character.substr(character.size() - 2);
  if (tail != "\xBF\xBE" && tail != "\xBF\xBF") return false;
  const unsigned char before = character[character.size() - 3];
  return (before & 0x0F) == 0x0F;
}

}  // namespace

std::string printable_text(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text, 0);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_noncharacter(character)) {
      out += kReplacementCharacter;
    } else if ((!is_control(character) && !is_bidi_control(character)) ||
               kept.find(character) != std::string_view::npos) {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace mtl
