// How flags are shown and stored: --help, --dump-config and --config.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/json.h"
#include "base/str.h"
#include "cli/flags.h"

namespace mtl {

namespace {

constexpr std::size_t kIndent = 30, kWidth = 110;  // of --help

/// `left`, padded to kIndent or on a line of its own, then `text` in the column after it.
std::string two_columns(const std::string& left, const std::string& text) {
  const std::string indent(kIndent, ' ');
  std::string out = "  " + left, line;
  out += out.size() + 2 > kIndent ? "\n" + indent : std::string(kIndent - out.size(), ' ');
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + indent;
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

/// A default that the flag would refuse means that there is none.
bool has_value(const Flags::Flag& flag) {
  const std::string value = flag.value();
  return !value.empty() && (flag.is_switch() || flag.is_list() || flag.objection(value).empty());
}

std::string help_of(const Flags::Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.option->get_lnames()) names.push_back("--" + name);
  for (const std::string& name : flag.option->get_snames()) names.push_back("-" + name);
  std::string text = flag.option->get_description();
  if (!flag.choices.empty()) text += cat(": ", join(flag.choices, ", "));
  if (has_value(flag) && !flag.is_switch()) text += cat(" [", flag.value(), "]");
  return two_columns(join(names, ", ") + (flag.is_switch() ? "" : " " + flag.option->get_type_name()), text);
}

/// A word as --config reads it back: as a JSON string where it would be read as something else.
std::string quote(const std::string& word) {
  std::string out;
  const bool is_plain = !word.empty() && word[0] != '#' && word.find_first_of(" \t\n\r\f\v\"\\") == std::string::npos;
  if (!is_plain) append_json_string(out, word);
  return is_plain ? word : out;
}

/// The words of a value in a configuration file, up to a comment: a word in double quotes is a JSON string.
std::vector<std::string> config_words(std::string_view text) {
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

/// The format of configuration files.
class ConfigText : public CLI::Config {
 public:
  explicit ConfigText(const Flags& flags) : flags_(flags) {}

  std::string to_config(const CLI::App* /*app*/, bool /*all*/, bool /*help*/, std::string /*prefix*/) const override {
    std::string out;
    for (const auto& flag : flags_.all()) {
      if (flag->option->get_group() == "General") continue;
      auto* list = std::get_if<std::vector<std::string>*>(&flag->target);
      std::vector<std::string> words = list != nullptr ? **list : std::vector<std::string>{flag->value()};
      const bool is_unset = flag->origin == "default" && !has_value(*flag);
      for (std::string& word : words) word = quote(word);
      std::string line = cat(is_unset ? "# " : "", flag->name.substr(2), " = ", is_unset ? "" : join(words, " "));
      out += line + std::string(line.size() < 48 ? 48 - line.size() : 1, ' ') + cat(" # ", flag->origin, "\n");
    }
    return out;
  }

  /// One item per line. Parents: the line's number, and what is wrong with the line, if anything. Inputs: "=" if the
  /// line has it, and the words.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items;
    std::size_t number = 0;
    for (std::string raw; std::getline(input, raw);) {
      CLI::ConfigItem item{{cat(++number)}, "", {}};
      if (number == 1 && starts_with(raw, "\xEF\xBB\xBF")) raw.erase(0, 3);  // a byte order mark
      const std::string_view line = trim(raw);
      if (line.empty() || line[0] == '#') continue;
      const std::size_t name_end = std::min(line.find_first_of("= \t#"), line.size());
      item.name = line.substr(0, name_end);
      std::string_view rest = trim(line.substr(name_end));
      try {
        if (starts_with(rest, "=")) item.inputs = {"="}, rest.remove_prefix(1);
        const std::vector<std::string> words = config_words(rest);
        item.inputs.insert(item.inputs.end(), words.begin(), words.end());
      } catch (const Error& error) {  // a string whose quotes do not close
        item.parents.emplace_back(error.what());
      }
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  const Flags& flags_;
};

}  // namespace

void Flags::install_texts() {
  app_->formatter_fn([this](const CLI::App*, const std::string&, CLI::AppFormatMode) { return help_text(); });
  app_->config_formatter(std::make_shared<ConfigText>(*this));
}

std::string Flags::help_text() const {
  std::string out = cat(program_, ": ", app_->get_description(), "\n\nusage: ", program_, " [flags]");
  out += positional_.name.empty()
             ? "\n"
             : cat(" ", positional_.name, "...\n\n", two_columns(positional_.name, positional_.help));
  std::vector<std::string> sections = app_->get_groups();
  std::rotate(sections.begin(), sections.begin() + 1, sections.end());  // "General" is declared first, shown last
  for (const std::string& section : sections) {
    if (section.empty()) continue;  // hidden
    out += cat("\n", section, ":\n");
    for (const auto& flag : flags_) {
      const bool is_shown = flag->option->get_group() == section && flag->option->has_description();
      if (is_shown) out += help_of(*flag);
    }
  }
  return out + cat("\nMore in the manual page: man ", split(program_, ' ')[0], "\n");
}

std::string Flags::list_flags() const {
  std::string out;
  for (const auto& flag : flags_) {
    static constexpr const char* kKinds[] = {"switch", "whole", "real", "text", "whole", "real", "text", "list"};
    const std::string kind = kKinds[flag->target.index()];
    out += cat(flag->name, " ", kind);
    if (kind == "whole" || kind == "real")
      out += cat(flag->excludes_least ? " (" : " [", flag->least, " ", flag->most, flag->excludes_most ? ")" : "]");
    for (const auto& [other, holds] : flag->effects) out += "; has no effect " + other;
    for (const auto& [other, holds] : flag->needed) out += "; needs " + other;
    out += "\n";
  }
  return out;
}

std::string Flags::help() const { return app_->help(); }

std::string Flags::dump_config() const { return app_->config_to_str(true); }

}  // namespace mtl
