// A cuBLASLt algorithm as text, for tables of choices (device/choices.h): the number of the algorithm, followed by its
// nonzero attributes, as in "66 tile=20 stages=36 cluster=2".
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

struct GemmAlgorithm {
  /// The names of `values`, in order. The values are numbers that the library defines; their meaning may differ between
  /// versions of the library.
  static constexpr std::array<const char*, 8> kNames = {"tile",    "stages", "split", "reduction",
                                                        "swizzle", "custom", "inner", "cluster"};
  int id = 0;
  std::array<int, kNames.size()> values{};

  std::string text() const;
  /// Parses the result of text(). Returns nothing for any other text.
  static std::optional<GemmAlgorithm> parse(std::string_view text);
  bool operator==(const GemmAlgorithm&) const = default;
};

}  // namespace mtl
