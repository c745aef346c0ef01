#include "base/config_text.h"

#include <algorithm>
#include <utility>

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

std::string quote(const std::string& word) {
  const bool is_plain =
      !word.empty() && word[0] != '#' && word.find_first_of(cat(kBlanks, "\"\\")) == std::string::npos;
  if (is_plain) return word;
  std::string out;
  append_json_string(out, word);
  return out;
}

}  // namespace

std::optional<ConfigLine> parse_config_line(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  take_prefix(text, kByteOrderMark);
  text = trim(text);
  if (text.empty() || text[0] == '#') return std::nullopt;
  ConfigLine line;
  const std::size_t name_end = std::min(text.find_first_of("= \t#"), text.size());
  line.name = text.substr(0, name_end);
  text = trim(text.substr(name_end));
  line.has_equals = starts_with(text, "=");
  if (line.has_equals) text.remove_prefix(1);
  try {
    line.words = parse_words(text);
  } catch (const Error& error) {  // an invalid JSON string
    line.error = error.what();
  }
  if (std::ranges::any_of(line.words, [](const std::string& word) { return word.find('\0') != std::string::npos; })) {
    line.words.clear();
    line.error = "the value has a NUL byte; remove it";
  }
  if (!line.has_equals && !line.words.empty())
    line.error = cat("write ", line.name, " = ", join(std::exchange(line.words, {}), " "));
  return line;
}

std::string config_line(const std::string& name, const std::optional<std::vector<std::string>>& words,
                        const std::string& comment) {
  constexpr std::size_t kCommentColumn = 48;
  std::string line = cat(words ? "" : "# ", name, " = ", words ? join(*words, " ", quote) : "");
  line.resize(std::max(line.size() + 1, kCommentColumn), ' ');
  return cat(line, " # ", comment, "\n");
}

}  // namespace mtl
