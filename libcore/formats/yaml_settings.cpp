#include "formats/yaml_settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string setting_name(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

/// Returns the line without its comment, which begins with a '#' at the line's start or after a blank.
std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\' && quote == '"')
        ++i;
      else if (line[i] == quote)
        quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

YamlSetting scalar_of(std::string_view text) {
  text = trim(text);
  const bool is_quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return {.text = std::string(is_quoted ? text.substr(1, text.size() - 2) : text), .is_quoted = is_quoted};
}

/// Reads a flow mapping.
class FlowMapping {
 public:
  explicit FlowMapping(std::string_view text) : text_(text) {}

  std::map<std::string, YamlSetting> read() {
    std::map<std::string, YamlSetting> out;
    ++at_;  // '{'
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) fail_here("the mapping has no '}'");
      if (text_[at_] == '}') break;
      const std::string name = setting_name(scalar_of(take_until(":,\n{}[]")).text);
      if (at_ >= text_.size() || text_[at_] != ':') fail_here("a setting has no ':'");
      ++at_;
      skip_blanks();
      out.insert_or_assign(name, take_value());
      skip_blanks();
      if (at_ < text_.size() && text_[at_] == ',')
        ++at_;
      else if (at_ < text_.size() && text_[at_] != '}')
        fail_here("a setting does not end with ','");
    }
    ++at_;
    skip_blanks();
    if (at_ < text_.size()) fail_here("text follows the mapping");
    return out;
  }

 private:
  [[noreturn]] void fail_here(std::string_view what) const {
    const auto end = text_.begin() + std::ptrdiff_t(std::min(at_, text_.size()));
    fail(Exit::bad_data, "line ", 1 + std::count(text_.begin(), end, '\n'), ": ", what);
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlank, at_), text_.size()); }

  /// Takes a quoted or plain scalar, up to one of `ends` outside of quotes.
  std::string_view take_until(std::string_view ends) {
    const std::size_t begin = at_;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) skip_quoted();
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  void skip_quoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' && quote == '"' ? 2 : 1;
    if (at_ >= text_.size()) fail_here("a quoted text does not end");
    ++at_;
  }

  YamlSetting take_value() {
    if (at_ >= text_.size() || (text_[at_] != '{' && text_[at_] != '[')) return scalar_of(take_until(",}\n"));
    const std::size_t begin = at_;
    std::int64_t depth = 0;
    do {
      if (at_ >= text_.size()) fail_here("a list or mapping does not end");
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_quoted();
        continue;
      }
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      ++at_;
    } while (depth > 0);
    return {.text = std::string(text_.substr(begin, at_ - begin)), .is_nested = true};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Reads a block mapping, whose nested values are indented or are lists.
std::map<std::string, YamlSetting> read_block(const std::vector<std::string>& lines) {
  std::map<std::string, YamlSetting> out;
  YamlSetting* last = nullptr;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (trim(line).empty() || starts_with(line, "---") || starts_with(line, "%")) continue;
    if (line[0] == ' ' || line[0] == '\t' || starts_with(line, "- ") || trim(line) == "-") {
      if (last == nullptr || (!last->is_nested && !last->text.empty()))
        fail(Exit::bad_data, "line ", i + 1, ": an indented line follows no setting");
      last->is_nested = true;
      last->text += cat(line, "\n");
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos)
      fail(Exit::bad_data, "line ", i + 1, ": '", printable_text(trim(line).substr(0, 40)), "' is not a setting");
    YamlSetting value = scalar_of(line.substr(colon + 1));
    value.is_nested = !value.is_quoted && (starts_with(value.text, "[") || starts_with(value.text, "{"));
    last = &(out[setting_name(scalar_of(line.substr(0, colon)).text)] = std::move(value));
  }
  return out;
}

}  // namespace

std::map<std::string, YamlSetting> parse_yaml_settings(std::string_view text) {
  std::vector<std::string> lines;
  std::string whole;
  for (const std::string& line : split(std::string(text), '\n')) {
    lines.emplace_back(without_comment(line));
    whole += cat(lines.back(), "\n");
  }
  const std::string_view content = trim(whole);
  if (!starts_with(content, "{")) return read_block(lines);
  return FlowMapping(content).read();
}

}  // namespace mtl
