#include "kernels/gemm_algorithm.h"

#include <algorithm>
#include <climits>

#include "base/str.h"

namespace mtl {

namespace {

/// Returns the number that `text` is, or -1.
int number_in(std::string_view text) {
  return static_cast<int>(std::clamp<std::int64_t>(parse_int(text).value_or(-1), -1, INT_MAX));
}

}  // namespace

std::string GemmAlgorithm::text() const {
  std::string out = std::to_string(id);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (values[i] != 0) out += cat(" ", kNames[i], "=", values[i]);
  }
  return out;
}

std::optional<GemmAlgorithm> GemmAlgorithm::parse(std::string_view text) {
  GemmAlgorithm out;
  const std::vector<std::string> words = split(std::string(text), ' ');
  out.id = number_in(words.empty() ? "" : words.front());
  for (std::size_t word = 1; word < words.size(); ++word) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const std::string prefix = cat(kNames[i], "=");
      if (words[word].starts_with(prefix))
        out.values[i] = std::max(0, number_in(std::string_view(words[word]).substr(prefix.size())));
    }
  }
  if (out.id < 0 || out.text() != text) return {};  // also refuses other spellings of a number, such as +1
  return out;
}

}  // namespace mtl
