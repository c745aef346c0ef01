// The pages of the documentation, for the tests that compare them with the sources. Tests run in tests/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/str.h"

namespace mtl::test {

/// Returns the paths of README, CONTRIBUTING, docs/*.md and the manual pages.
inline std::vector<std::string> pages() {
  std::vector<std::string> out = {"../README.md", "../CONTRIBUTING.md"};
  for (const char* folder : {"../docs", "../man"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string kind = entry.path().extension();
      if (kind == ".md" || kind == ".scd") out.push_back(entry.path());
    }
  }
  return out;
}

/// Returns a page's text without code blocks, in one line. Code is in back quotes, also where a manual page has stars.
inline std::string prose_of(const std::string& page) {
  std::string text;
  bool in_code = false;
  for (const std::string& line : split(read_file(page), '\n')) {
    const std::string_view trimmed = trim(line);
    if (trimmed.starts_with("```")) in_code = !in_code;
    if (!in_code && !trimmed.starts_with("```")) text += cat(trimmed, " ");
  }
  if (!page.ends_with(".scd")) return text;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_literal = text[i] == '\\' && i + 1 < text.size();
    if (is_literal) ++i;
    out += text[i] == '*' && !is_literal ? '`' : text[i];
  }
  return out;
}

/// Returns what is in back quotes in a page's prose.
inline std::vector<std::string> code_of(const std::string& prose) {
  const std::vector<std::string> parts = split(prose, '`');
  std::vector<std::string> out;
  for (std::size_t i = 1; i < parts.size(); i += 2) out.push_back(parts[i]);
  return out;
}

}  // namespace mtl::test
