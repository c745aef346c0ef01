// A pull parser for JSON, following Python's json module (base/json.h), and UTF-8 helpers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl {

/// Reads one JSON text without building values. On invalid input, all reading functions throw Error(bad_data)
/// "byte N: what", with N counted from 1.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// Skips whitespace. Returns the next character without consuming it, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  /// Reads `bracket`, which opens an object or array.
  void enter(char bracket);
  /// Called after enter() and after each item. If another item follows, skips the comma before it and returns true. At
  /// the closing bracket, skips that and returns false.
  bool next_item(char closing_bracket);
  /// Reads a key and its colon. The view is valid until the next call that reads a string.
  std::string_view key();
  /// A fast path for files with many numbers, called after next_item(). If a short key and an unsigned integer with at
  /// most nine digits follow, reads both, sets `key` (valid until the next plain_item()) and returns the integer.
  /// Otherwise returns nullopt and does not advance.
  std::optional<std::int64_t> plain_item(std::string_view& key);
  /// Reads a string and decodes its escapes into UTF-8. A lone surrogate becomes three bytes, like any code point in
  /// its range; see has_lone_surrogate(). The view points into the text or this cursor, and is valid until the next
  /// string is read.
  std::string_view string();
  /// Reads a number, NaN or an infinity, and returns its characters.
  std::string_view number();
  /// Reads true, false or null, and returns its first letter.
  char literal();
  void skip_value();
  /// Throws Error(bad_data) unless only whitespace is left.
  void finish();
  std::size_t offset() const { return at_; }
  /// Throws Error(bad_data) "byte N: what" for the current position, or names the encoding if that is the cause.
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

/// Returns `number` as an integer, or nullopt if it has a fraction or exponent or does not fit into 64 bits.
std::optional<std::int64_t> json_integer(std::string_view number);
/// Returns true if decoded text contains a surrogate code point, which valid Unicode text never does.
bool has_lone_surrogate(std::string_view text);
/// Returns the offset of the first invalid byte, or npos for valid UTF-8.
std::size_t find_invalid_utf8(std::string_view text);

/// Appends a code point as UTF-8. Surrogates are accepted too, as three bytes.
void append_utf8(std::string& out, std::uint32_t code_point);

/// Returns the length in bytes of the UTF-8 character at `at` < text.size(), or 0 if it is ill-formed.
std::size_t utf8_length(std::string_view text, std::size_t at);

}  // namespace mtl
