// The format of configuration files, which --dump-config writes and --config reads: one `name = value` a line. A value
// is words separated by blanks; a word in double quotes is a JSON string; # begins a comment at the start of a line or
// of a word. A name alone stands for a switch. Blank lines are skipped, and so is a byte order mark at the beginning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// A line with a name.
struct ConfigLine {
  std::size_t number = 0;  // of the line, from 1
  std::string name;
  bool has_equals = false;  // = follows the name
  std::vector<std::string> words;
  std::string error;  // empty, or why the words could not be read; the line has none then
};

std::vector<ConfigLine> parse_config(std::string_view text);

/// The words of a value as parse_config reads them back, if they are valid UTF-8.
std::string config_value(const std::vector<std::string>& words);

}  // namespace mtl
