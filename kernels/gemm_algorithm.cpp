#include "kernels/gemm_algorithm.h"

#include <charconv>

#include "base/str.h"

namespace mtl {

namespace {

/// Parses a nonnegative integer. `text` must not contain anything else.
std::optional<int> parse_number(std::string_view text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0) return {};
  return out;
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
  const std::optional<int> id = parse_number(words.empty() ? "" : words.front());
  if (!id) return {};
  out.id = *id;
  for (std::size_t word = 1; word < words.size(); ++word) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const std::string prefix = cat(kNames[i], "=");
      if (words[word].starts_with(prefix))
        out.values[i] = parse_number(std::string_view(words[word]).substr(prefix.size())).value_or(0);
    }
  }
  if (out.text() != text) return {};
  return out;
}

}  // namespace mtl
