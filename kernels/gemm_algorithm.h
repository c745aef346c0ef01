// A cuBLASLt algorithm as text, for choice tables (device/choices.h). The text is the algorithm's number followed by
// its nonzero attributes, as in "66 tile=20 stages=36 cluster=2".
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

struct GemmAlgorithm {
  /// Names for `values`, in the same order. The library defines the values, and their meaning can differ between
  /// versions.
  static constexpr std::array<const char*, 8> kNames = {"tile",    "stages", "split", "reduction",
                                                        "swizzle", "custom", "inner", "cluster"};
  int id = 0;
  std::array<int, kNames.size()> values{};

  std::string text() const;
  /// Parses what text() returned. Returns nullopt for any other text.
  static std::optional<GemmAlgorithm> parse(std::string_view text);
  bool operator==(const GemmAlgorithm&) const = default;
};

}  // namespace mtl
