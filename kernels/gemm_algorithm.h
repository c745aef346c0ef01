// A cuBLASLt algorithm as text, for tables of choices (device/choices.h): its number, then its nonzero attributes, as
// in "66 tile=20 stages=36 cluster=2".
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

struct GemmAlgorithm {
  /// Names of `values`, in their order. The values are the library's numbers; their meaning may differ between its
  /// versions.
  static constexpr std::array<const char*, 8> kNames = {"tile",    "stages", "split", "reduction",
                                                        "swizzle", "custom", "inner", "cluster"};
  int id = 0;
  std::array<int, kNames.size()> values{};

  std::string text() const;
  /// Returns nothing for a text that text() would not write.
  static std::optional<GemmAlgorithm> parse(std::string_view text);
  bool operator==(const GemmAlgorithm&) const = default;
};

}  // namespace mtl
