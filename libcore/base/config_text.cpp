#include "base/config_text.h"

#include <algorithm>

#include "base/json.h"
#include "base/json_cursor.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr const char* kBlanks = " \t\n\r\f\v";

std::vector<std::string> parse_words(std::string_view text) {
  std::vector<std::string> words;
  for (text = trim(text); !text.empty() && text[0] != '#'; text = trim(text)) {
    std::size_t end = text.find_first_of(" \t");
    if (text[0] == '"') {
      JsonCursor cursor(text);
      words.emplace_back(cursor.string());
      end = cursor.offset();
    } else {
      words.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end, text.size()));
  }
  return words;
}

ConfigLine parse_line(std::string_view text) {
  ConfigLine line;
  const std::size_t name_end = std::min(text.find_first_of("= \t#"), text.size());
  line.name = text.substr(0, name_end);
  text = trim(text.substr(name_end));
  line.has_equals = starts_with(text, "=");
  if (line.has_equals) text.remove_prefix(1);
  try {
    line.words = parse_words(text);
  } catch (const Error& error) {  // a string whose quotes do not close
    line.error = error.what();
  }
  return line;
}

std::string quote(const std::string& word) {
  const bool is_plain =
      !word.empty() && word[0] != '#' && word.find_first_of(cat(kBlanks, "\"\\")) == std::string::npos;
  if (is_plain) return word;
  std::string out;
  append_json_string(out, word);
  return out;
}

}  // namespace

std::vector<ConfigLine> parse_config(std::string_view text) {
  if (starts_with(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<ConfigLine> lines;
  std::size_t number = 0;
  for (const std::string& raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.empty() || line[0] == '#') continue;
    lines.push_back(parse_line(line));
    lines.back().number = number;
  }
  return lines;
}

std::string config_value(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(quote(word));
  return join(quoted, " ");
}

}  // namespace mtl
