#include "base/shell_word.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char each) {
    return std::isalnum(byte_of(each)) != 0 || std::string_view("-_./=,:@%+").find(each) != std::string_view::npos;
  });
  return is_plain ? word : cat("'", replace_all(word, "'", "'\\''"), "'");
}

}  // namespace mtl
