// How flags are shown: --help and --dump-config.
#include <algorithm>

#include "base/json.h"
#include "base/str.h"
#include "cli/flags.h"

namespace mtl {

namespace {

/// A word as --config reads it back: in JSON's quotes where it would not survive without.
std::string quote(const std::string& word) {
  bool plain = !word.empty() && word[0] != '#' && word.find_first_of(" \t\n\r\f\v\"\\") == std::string::npos;
  std::string out;
  if (plain)
    out = word;
  else
    append_json_string(out, word);
  return out;
}

/// Text wrapped to lines of `width`, every line but the first indented.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

}  // namespace

std::string Flags::help() const {
  constexpr std::size_t kIndent = 30, kWidth = 110;
  std::string out = cat(program_, ": ", summary_, "\n\nusage: ", program_, " [flags]");
  if (positional_) out += " " + positional_->value_name + "...";
  out += "\n";
  if (positional_)
    out += cat("\n  ", positional_->value_name, std::string(kIndent - 2 - positional_->value_name.size(), ' '),
               wrap(positional_->help, kIndent, kWidth), "\n");
  std::vector<std::string> sections;
  for (const auto& flag : flags_) {
    if (std::count(sections.begin(), sections.end(), flag->section) == 0) sections.push_back(flag->section);
  }
  std::rotate(sections.begin(), sections.begin() + 1, sections.end());  // "General" was declared first and comes last
  for (const std::string& section : sections) {
    out += cat("\n", section, ":\n");
    for (const auto& flag : flags_) {
      if (flag->section != section || flag->is_hidden) continue;
      std::string left = "  " + flag->name;
      for (const std::string& alias : flag->aliases) left += ", " + alias;
      if (!flag->value_name.empty()) left += " " + flag->value_name;
      left += left.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ') : std::string(kIndent - left.size(), ' ');
      std::string text = flag->help;
      if (!flag->choices.empty()) text += cat(": ", join(flag->choices, ", "));
      if (!flag->is_switch() && !flag->value().empty()) text += cat(" [", flag->value(), "]");
      out += left + wrap(text, kIndent, kWidth) + "\n";
    }
  }
  out += cat("\nMore in the manual page: man ", split(program_, ' ')[0], "\n");
  return out;
}

std::string Flags::dump_config() const {
  std::string out;
  for (const auto& flag : flags_) {
    if (flag->section == "General") continue;
    auto* list = std::get_if<std::vector<std::string>*>(&flag->target);
    std::vector<std::string> words = list != nullptr ? **list : std::vector<std::string>{flag->value()};
    bool unset = flag->origin == "default" && flag->value().empty();
    for (std::string& word : words) word = quote(word);
    std::string line = cat(unset ? "# " : "", flag->name.substr(2), " = ", unset ? "" : join(words, " "));
    out += line + std::string(line.size() < 48 ? 48 - line.size() : 1, ' ') + cat(" # ", flag->origin, "\n");
  }
  return out;
}

}  // namespace mtl
