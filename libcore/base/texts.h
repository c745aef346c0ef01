// The texts of a table's rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mtl {

/// Returns text(row) of all rows. `text` is a function or a member pointer.
template <class Rows, class Text>
std::vector<std::string> texts_of(const Rows& rows, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& row : rows) texts.emplace_back(std::invoke(text, row));
  return texts;
}

}  // namespace mtl
