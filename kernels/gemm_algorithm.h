// An algorithm of cuBLASLt as text, for tables of choices (device/choices.h): "66 tile=20 stages=36 cluster=2", its
// number, then the attributes that are not 0.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

struct GemmAlgorithm {
  /// In the order of `values`. The library numbers all of them; what the numbers mean may differ between its versions.
  static constexpr std::array<const char*, 8> kNames = {"tile",    "stages", "split", "reduction",
                                                        "swizzle", "custom", "inner", "cluster"};
  int id = 0;
  std::array<int, kNames.size()> values{};

  std::string text() const;
  /// Nothing for text that text() does not write.
  static std::optional<GemmAlgorithm> parse(std::string_view text);
  bool operator==(const GemmAlgorithm&) const = default;
};

}  // namespace mtl
