// The tables of the documentation, to compare with the tables in the source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/str.h"

namespace mtl::test {

/// Returns the rows below the row of a Markdown page that begins with `heading`, each as its cells.
inline std::vector<std::vector<std::string>> doc_table(const std::string& page, std::string_view heading) {
  std::vector<std::vector<std::string>> rows;
  bool is_inside = false;
  for (const std::string& line : split(read_file(page), '\n')) {
    if (is_inside && !starts_with(line, "|")) break;
    if (is_inside && !starts_with(line, "|-")) {
      std::vector<std::string> cells;
      for (const std::string& cell : split(line, '|')) cells.emplace_back(trim(cell));
      rows.emplace_back(cells.begin() + 1, cells.end() - 1);
    }
    is_inside = is_inside || starts_with(line, heading);
  }
  return rows;
}

/// Returns the words `in backticks`.
inline std::vector<std::string> code_words(std::string_view text) {
  std::vector<std::string> words;
  const std::vector<std::string> parts = split(text, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2) words.push_back(parts[i]);
  return words;
}

}  // namespace mtl::test
