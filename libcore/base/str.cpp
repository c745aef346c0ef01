#include "base/str.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>

namespace mtl {

void append_part(std::string& out, double part) {
  char buffer[32];
  const double magnitude = std::abs(part);
  const bool is_plain = magnitude >= 1e-4 && magnitude < 1e7;  // "500000", although "5e+05" is shorter
  const auto result = is_plain ? std::to_chars(buffer, std::end(buffer), part, std::chars_format::fixed)
                               : std::to_chars(buffer, std::end(buffer), part);
  out.append(buffer, result.ptr);
}

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is two lines above
  int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string out(std::max(length, 0), '\0');
  std::vsnprintf(out.data(), out.size() + 1, pattern, again);
  va_end(again);
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += separator;
    out += part;
  }
  return out;
}

std::string join_or(std::vector<std::string> words) {
  if (words.size() < 2) return join(words, "");
  const std::string last = std::exchange(words.back(), "");
  words.pop_back();
  return cat(join(words, ", "), " or ", last);
}

std::string join_first(std::vector<std::string> words, std::size_t most, std::string_view noun) {
  if (words.size() <= most) return join(words, ", ");
  const std::size_t more = words.size() - most;
  words.resize(most);
  const std::string_view plural = noun.empty() || more == 1 ? "" : "s";
  return cat(join(words, ", "), " and ", with_commas(more), " more", noun.empty() ? "" : " ", noun, plural);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size()))
    out.append(text.substr(0, at)).append(to);
  return out.append(text);
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; });
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<std::string> wrap(const std::vector<std::string>& words, std::size_t width, std::size_t max_lines) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_last = lines.size() == max_lines;
    const std::string more = is_last ? cat(".. and ", words.size() - i, " more") : "";
    const std::size_t room = width - (is_last && i + 1 < words.size() ? more.size() + 1 : 0);
    if (!lines.back().empty() && lines.back().size() + 1 + words[i].size() > room) {
      if (is_last) {
        lines.back() += " " + more;
        return lines;
      }
      lines.emplace_back();
    }
    lines.back() += lines.back().empty() ? words[i] : " " + words[i];
  }
  return lines;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!starts_with(text, prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string to_little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(at, ",");
  }
  return digits;
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return unit == 0 ? format("%.0f B", bytes) : format("%.1f %s", bytes, units[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 10) return format("%.2f s", seconds);
  if (seconds < 60) return format("%.1f s", seconds);
  std::int64_t rounded = std::llround(seconds);
  if (rounded < 3600) return cat(rounded / 60, " min ", rounded % 60, " s");
  return cat(rounded / 3600, " h ", rounded / 60 % 60, " min");
}

namespace {

/// Removes surrounding blanks, the underscores Python allows between digits, and a leading +. Returns nullopt if an
/// underscore is not between two digits, or if another sign follows the +.
std::optional<std::string> plain_number(std::string_view text) {
  text = trim(text);
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  if (!out.empty() && out[0] == '+') {
    out.erase(0, 1);
    if (!out.empty() && (out[0] == '-' || out[0] == '+')) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_int(std::string_view text) {
  auto plain = plain_number(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::int64_t value = 0;
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.InnerPointer): the destroyed string had been moved into this one
  auto [end, error] = std::from_chars(plain->data(), plain->data() + plain->size(), value);
  if (error != std::errc() || end != plain->data() + plain->size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  auto plain = plain_number(text);
  if (!plain || plain->empty()) return std::nullopt;
  // from_chars() accepts all texts that Python accepts, and also "nan(...)", rejected below.
  double value = 0;
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.InnerPointer): the destroyed string had been moved into this one
  auto [end, error] = std::from_chars(plain->data(), plain->data() + plain->size(), value);
  if (end != plain->data() + plain->size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(plain->c_str(), nullptr);  // inf or 0, as in Python
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  if (plain->find('(') != std::string::npos) return std::nullopt;
  return value;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // row[j] is the distance between the current prefix of `a` and the first j characters of `b`.
  std::vector<std::size_t> row(b.size() + 1), previous, before_previous;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_previous = std::exchange(previous, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      bool are_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (are_swapped) row[j] = std::min(row[j], before_previous[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t limit = std::max<std::size_t>(1, word.size() / 4) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
    if (distance < limit) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

std::string time_text(std::time_t time, const char* pattern) {
  std::tm local{};
  localtime_r(&time, &local);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, pattern, &local);
  return buffer;
}

}  // namespace mtl
