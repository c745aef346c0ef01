// A pull parser for JSON by the rules of Python's json module (base/json.h), and helpers for UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl {

/// Reads one JSON text without building values. Every function throws Error(bad_data) "byte N: what", N counted from 1.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// Skips whitespace; returns the next character, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  /// Enters an object or array.
  void enter(char bracket);
  /// After enter() or after an item: true if another item follows (skips the comma before it), false at the closing
  /// bracket (skips it).
  bool next_item(char closing_bracket);
  /// Reads a key and its colon. The view is valid until the next call that reads a string.
  std::string_view key();
  /// After next_item(), a fast path for files with many numbers: reads a short key and its value, an integer of up to
  /// nine digits without a sign. Returns the value and sets `key`, valid until the next plain_item(). In all other
  /// cases returns nothing and does not advance.
  std::optional<std::int64_t> plain_item(std::string_view& key);
  /// Reads a string and decodes its escapes into UTF-8. A lone surrogate becomes the three bytes of its code point: see
  /// has_lone_surrogate. The view points into the text or into this cursor, and is valid until the next string is read.
  std::string_view string();
  /// Reads a number, NaN or an infinity; returns its characters.
  std::string_view number();
  /// Reads true, false or null; returns its first letter.
  char literal();
  void skip_value();
  /// Throws unless only whitespace is left.
  void finish();
  std::size_t offset() const { return at_; }
  [[noreturn]] void fail_here(const std::string& what) const;

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  std::uint32_t hex4();
  void append_escape();
  std::size_t plain_run();
  std::string_view text_;
  std::size_t at_ = 0;
  std::string decoded_;
  char plain_key_[128];
  bool first_item_ = false;
  int depth_ = 0;
};

/// Returns the value of a number without fraction or exponent, if it fits into 64 bits.
std::optional<std::int64_t> json_integer(std::string_view number);
/// True if decoded text contains a surrogate code point, which no valid Unicode text does.
bool has_lone_surrogate(std::string_view text);
/// Returns the offset of the first invalid byte, or npos.
std::size_t find_invalid_utf8(std::string_view text);

/// Appends a code point as UTF-8 (surrogates included, as three bytes).
void append_utf8(std::string& out, std::uint32_t code_point);

/// Returns the length in bytes of the well-formed UTF-8 character at `at` (Unicode 15, table 3-7), or 0.
std::size_t utf8_length(std::string_view text, std::size_t at);

}  // namespace mtl
