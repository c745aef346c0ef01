#include "base/json_cursor.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr int kMaxDepth = 1000;

/// Values for hexadecimal digits; -1 for all other characters.
constexpr std::array<std::int16_t, 256> kHexDigits = [] {
  std::array<std::int16_t, 256> values;
  values.fill(-1);
  for (std::int16_t i = 0; i < 10; ++i) values['0' + i] = i;
  for (std::int16_t i = 0; i < 6; ++i) values['a' + i] = values['A' + i] = static_cast<std::int16_t>(10 + i);
  return values;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns how many of the eight bytes in `word`, in memory order, come before the first '"', '\\', or byte below 0x20
/// or above 0x7F. Returns 8 if there is none.
std::size_t plain_bytes(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  // Sets the high bit in each byte below `limit` (at most 0x80). Borrows may also set it in later bytes, but never
  // before the first such byte.
  auto below = [](std::uint64_t v, std::uint64_t limit) { return (v - kOnes * limit) & ~v & kHigh; };
  const std::uint64_t special =
      (word & kHigh) | below(word, 0x20) | below(word ^ kOnes * '"', 1) | below(word ^ kOnes * '\\', 1);
  return std::countr_zero(special) / 8;  // countr_zero(0) is 64: no special byte
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const Utf8Char next = next_utf8(text.data() + at, text.data() + text.size());
  return next.valid ? next.length : 0;
}

void append_utf8(std::string& out, std::uint32_t c) {
  auto append = [&](auto... bytes) {
    const char character[] = {static_cast<char>(bytes)...};
    out.append(character, sizeof character);
  };
  if (c < 0x80) {
    append(c);
  } else if (c < 0x800) {
    append(0xC0 | c >> 6, 0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    append(0xE0 | c >> 12, 0x80 | (c >> 6 & 0x3F), 0x80 | (c & 0x3F));
  } else {
    append(0xF0 | c >> 18, 0x80 | (c >> 12 & 0x3F), 0x80 | (c >> 6 & 0x3F), 0x80 | (c & 0x3F));
  }
}

std::optional<std::int64_t> json_integer(std::string_view number) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return {};
  return value;
}

bool has_lone_surrogate(std::string_view text) {
  for (std::size_t at = text.find('\xED'); at != std::string_view::npos; at = text.find('\xED', at + 1)) {
    if (at + 1 < text.size() && byte_of(text[at + 1]) >= 0xA0) return true;
  }
  return false;
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = utf8_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void JsonCursor::fail_here(const std::string& what) const {
  if (const OtherEncoding* other = find_other_encoding(text_))
    fail(Exit::bad_data, "byte 1: ", other->what, ", not plain UTF-8; convert it: ", other->filter, " FILE");
  fail(Exit::bad_data, "byte ", at_ + 1, ": ", what);
}

void JsonCursor::enter(char bracket) {
  if (peek() != bracket) fail_here(cat("expected '", bracket, "'"));
  if (++depth_ > kMaxDepth) fail_here("nested deeper than 1000");
  ++at_;
  first_item_ = true;
}

bool JsonCursor::next_item(char closing_bracket) {
  bool first = std::exchange(first_item_, false);
  char c = peek();
  if (c == closing_bracket) {
    ++at_;
    --depth_;
    return false;
  }
  if (first) return true;
  if (c != ',') fail_here(c == '\0' ? "the text ends early" : cat("expected ',' or '", closing_bracket, "'"));
  ++at_;
  if (peek() == closing_bracket) fail_here("a value is missing after ','");
  return true;
}

std::string_view JsonCursor::key() {
  if (peek() != '"') fail_here("expected a key in double quotes");
  std::string_view name = string();
  if (peek() != ':') fail_here("expected ':' after a key");
  ++at_;
  return name;
}

/// Advances past unescaped characters. Returns the offset where they begin.
std::size_t JsonCursor::plain_run() {
  std::size_t begin = at_;
  while (true) {
    std::uint64_t word = 0;
    while (at_ + 8 <= text_.size()) {
      std::memcpy(&word, text_.data() + at_, 8);
      const std::size_t plain = plain_bytes(word);
      at_ += plain;
      if (plain < 8) break;
    }
    if (at_ >= text_.size()) fail_here("a string is not closed");
    unsigned char c = text_[at_];
    if (c == '"' || c == '\\') return begin;
    if (c < 0x20) fail_here("a control character in a string must be escaped");
    std::size_t length = utf8_length(text_, at_);
    if (length == 0) fail_here("invalid UTF-8");
    at_ += length;
  }
}

std::optional<std::int64_t> JsonCursor::plain_item(std::string_view& key) {
  // Longer items, and items near the end of the text, take the general path.
  constexpr std::size_t kMaxBytes = 6 * sizeof plain_key_ + 32;
  if (text_.size() - at_ < kMaxBytes || text_[at_] != '"') return {};
  const char* at = text_.data() + at_ + 1;
  char *out = plain_key_, *const last = plain_key_ + sizeof plain_key_ - 4;
  for (; *at != '"'; ++at) {
    std::uint32_t code = byte_of(*at);
    if (code == '\\' && at[1] == 'u') {
      const int digits[] = {kHexDigits[byte_of(at[2])], kHexDigits[byte_of(at[3])], kHexDigits[byte_of(at[4])],
                            kHexDigits[byte_of(at[5])]};
      if ((digits[0] | digits[1] | digits[2] | digits[3]) < 0) return {};
      code = static_cast<std::uint32_t>(digits[0] << 12 | digits[1] << 8 | digits[2] << 4 | digits[3]);
      if (code >= 0x800) return {};
      at += 5;
    } else if (code < 0x20 || code == '\\') {
      return {};
    } else if (code >= 0x80) {
      if (code < 0xC2 || code > 0xDF || (byte_of(at[1]) & 0xC0) != 0x80) return {};
      code = (code & 0x1F) << 6 | (byte_of(at[1]) & 0x3F);
      ++at;
    }
    if (out >= last) return {};
    if (code >= 0x80) {
      *out++ = static_cast<char>(0xC0 | code >> 6);
      code = 0x80 | (code & 0x3F);
    }
    *out++ = static_cast<char>(code);
  }
  if (*++at != ':') return {};
  if (*++at == ' ') ++at;
  std::int64_t value = 0;
  const char* const number = at;
  for (; is_digit(*at) && at - number < 10; ++at) value = 10 * value + (*at - '0');
  const std::ptrdiff_t digits = at - number;
  if (digits == 0 || digits > 9 || (digits > 1 && *number == '0') || (*at != ',' && *at != '}')) return {};
  key = std::string_view(plain_key_, out);
  at_ = at - text_.data();
  return value;
}

/// Reads four hexadecimal digits and returns their value.
std::uint32_t JsonCursor::hex4() {
  std::uint32_t value = 0;
  bool valid = at_ + 4 <= text_.size();
  for (std::size_t i = 0; i < 4 && valid; ++i) {
    const int digit = kHexDigits[byte_of(text_[at_ + i])];
    valid = digit >= 0;
    value = value << 4 | static_cast<std::uint32_t>(digit & 0xF);
  }
  if (!valid) fail_here("\\u needs four hexadecimal digits");
  at_ += 4;
  return value;
}

void JsonCursor::append_escape() {
  constexpr std::string_view kEscapes = "\"\\/bfnrt", kEscaped = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (c != 'u') {
    const std::size_t simple = kEscapes.find(c);
    if (simple == std::string_view::npos) fail_here("unknown escape");
    decoded_ += kEscaped[simple];
    ++at_;
    return;
  }
  ++at_;
  const std::uint32_t high = hex4();
  if (high >= 0xD800 && high < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    const std::size_t before = at_;
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low >= 0xDC00 && low < 0xE000) return append_utf8(decoded_, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
    at_ = before;
  }
  append_utf8(decoded_, high);
}

std::string_view JsonCursor::string() {
  if (peek() != '"') fail_here("expected a string");
  ++at_;
  std::size_t begin = plain_run();
  if (text_[at_] == '"') return text_.substr(begin, at_++ - begin);
  decoded_.assign(text_.substr(begin, at_ - begin));
  while (text_[at_] == '\\') {
    ++at_;
    append_escape();
    begin = plain_run();
    decoded_.append(text_.substr(begin, at_ - begin));
  }
  ++at_;
  return decoded_;
}

std::string_view JsonCursor::number() {
  const char begins = peek();
  const std::size_t begin = at_;
  auto take = [&](char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  };
  auto digits = [&] {
    std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > first;
  };
  if (!is_digit(begins)) {
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!starts_with(text_.substr(at_), word)) continue;
      at_ += word.size();
      return word;
    }
  }
  take('-');
  if (!take('0') && !digits()) fail_here("expected a value");
  std::size_t integer_end = at_;
  // As in Python, an incomplete fraction or exponent does not belong to the number.
  if (take('.') && !digits()) at_ = integer_end;
  std::size_t fraction_end = at_;
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!digits()) at_ = fraction_end;
  }
  return text_.substr(begin, at_ - begin);
}

char JsonCursor::literal() {
  peek();
  for (std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return word[0];
    }
  }
  fail_here("expected a value");
}

void JsonCursor::skip_value() {
  switch (peek()) {
    case '{':
      enter('{');
      while (next_item('}')) {
        key();
        skip_value();
      }
      return;
    case '[':
      enter('[');
      while (next_item(']')) skip_value();
      return;
    case '"':
      string();
      return;
    case 't':
    case 'f':
    case 'n':
      literal();
      return;
    default:
      number();
  }
}

void JsonCursor::finish() {
  if (peek() != '\0' || at_ < text_.size()) fail_here("unexpected text after the value");
}

}  // namespace mtl
