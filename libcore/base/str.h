// Text helpers: joining, splitting and replacing, formatting and parsing numbers.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mtl {

inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }
template <std::same_as<bool> T>
void append_part(std::string& out, T part) {
  out += part ? "true" : "false";
}
void append_part(std::string& out, double part);  // as few digits as read back; exponents only below 1e-4 and from 1e7
template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, char> &&
         !std::is_same_v<T, bool>) void append_part(std::string& out, T part) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
}

/// Parts of other types are formatted by their text(): pass a Shape rather than its text(), so that a check that holds
/// formats nothing.
template <class T>
requires(std::same_as<decltype(std::declval<const T&>().text()), std::string>) void append_part(std::string& out,
                                                                                                const T& part) {
  out += part.text();
}

/// Appends the parts to `out`, one after another.
template <class... Parts>
void append_to(std::string& out, const Parts&... parts) {
  (append_part(out, parts), ...);
}
/// Concatenates the parts.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  append_to(out, parts...);
  return out;
}

/// Like sprintf(), but returns a std::string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// Returns text(item) of all items. `text` is a function or a member pointer.
template <class Items, class Text>
std::vector<std::string> texts_of(const Items& items, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.emplace_back(std::invoke(text, item));
  return texts;
}
/// Joins text(item) of all items.
template <class Items, class Text>
std::string join(const Items& items, std::string_view separator, const Text& text) {
  return join(texts_of(items, text), separator);
}
/// Joins the words of a choice: "a, b or c".
std::string join_or(std::vector<std::string> words);
/// Joins at most `most` words, and says how many others there are: "a, b and 7 more", with a noun "and 7 more tensors".
std::string join_first(std::vector<std::string> words, std::size_t most, std::string_view noun = "");
/// Returns `text` with each occurrence of `from`, which must not be empty, replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string lowered(std::string_view text);    // ASCII letters only
std::string_view trim(std::string_view text);  // removes leading and trailing ASCII whitespace
/// Wraps words into lines of at most `width` bytes, with single blanks between words. A longer word gets its own line.
/// If the words need more than `max_lines` lines, the last one ends with ".. and N more".
std::vector<std::string> wrap(const std::vector<std::string>& words, std::size_t width,
                              std::size_t max_lines = SIZE_MAX);
inline bool starts_with(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }
inline bool ends_with(std::string_view text, std::string_view suffix) { return text.ends_with(suffix); }
/// Removes `prefix` from the front of `text`. Returns false if `text` does not start with it.
bool take_prefix(std::string_view& text, std::string_view prefix);

/// Convert between a number and its bytes, the lowest first. from_little_endian() takes at most 8 bytes.
std::uint64_t from_little_endian(std::string_view bytes);
std::string to_little_endian(std::uint64_t value, std::size_t bytes);

/// Formats 1234567 as "1,234,567".
std::string with_commas(std::int64_t value);
/// Formats 1536 as "1.5 KiB", and 12 as "12 B".
std::string human_bytes(double bytes);
/// Formats 75.2 as "1 min 15 s", and 0.25 as "0.25 s".
std::string human_seconds(double seconds);

/// Parse the entire text as a number like Python's int() and float(), which also accept `1_000`, `+5`, `.1`, `1e-4` and
/// surrounding blanks. Return nullopt for anything else. parse_int() also returns nullopt if the number does not fit
/// into 64 bits.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_float(std::string_view text);

/// Returns the candidate that `word` is most likely a typo for, or "" if none is similar.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns a local time, as strftime() does.
[[gnu::format(strftime, 2, 0)]] std::string time_text(std::time_t time, const char* pattern);
/// Returns the present local time for log lines, as "2026-11-21 12:00:00".
inline std::string timestamp() { return time_text(std::time(nullptr), "%Y-%m-%d %H:%M:%S"); }

}  // namespace mtl
