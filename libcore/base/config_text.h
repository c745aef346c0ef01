// The configuration file format that --dump-config writes and --config reads. Each line reads `name = value`, where the
// value is a list of words separated by blanks. A word in double quotes is a JSON string. A # at the start of a line or
// word begins a comment. A name without a value is a switch. Blank lines and a byte order mark are skipped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// A parsed line, neither blank nor a comment.
struct ConfigLine {
  std::string name;
  bool has_equals = false;  // true if = follows the name
  std::vector<std::string> words;
  std::string error;  // empty if the line is valid; otherwise what is wrong with it, and `words` is empty
};

/// Parses one line. Returns nullopt for a blank line or a comment.
std::optional<ConfigLine> parse_config_line(std::string_view text);

/// Returns a line, with newline, that parse_config_line() can read back as long as `words` are valid UTF-8. Without
/// `words`, comments out the entire line.
std::string config_line(const std::string& name, const std::optional<std::vector<std::string>>& words,
                        const std::string& comment);

}  // namespace mtl
