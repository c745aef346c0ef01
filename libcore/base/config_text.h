// The format of configuration files, which --dump-config writes and --config reads: `name = value` per line. A value
// is words separated by blanks; a word in double quotes is a JSON string; # begins a comment at the start of a line or
// of a word. A name without a value is a switch. Blank lines are skipped, and so is a byte order mark.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// A parsed line that is neither blank nor a comment.
struct ConfigLine {
  std::string name;
  bool has_equals = false;  // = follows the name
  std::vector<std::string> words;
  std::string error;  // empty, or what is wrong with the line, which then has no words
};

/// Returns nullopt for a blank line or a comment.
std::optional<ConfigLine> parse_config_line(std::string_view text);

/// Returns a line that parse_config_line reads back, if the words are valid UTF-8. If `words` is nullopt, the whole
/// line is a comment.
std::string config_line(const std::string& name, const std::optional<std::vector<std::string>>& words,
                        const std::string& comment);

}  // namespace mtl
