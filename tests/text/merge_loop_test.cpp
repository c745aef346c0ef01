// PairTable, the table of merges, compared with a map.
#include "text/merge_loop.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace mtl {
namespace {

TEST_CASE("PairTable: finds exactly what was set") {
  std::mt19937 random(5);
  for (std::uint32_t pairs : {0u, 1u, 8u, 17u, 1000u, 60000u}) {
    CAPTURE(pairs);
    PairTable table(pairs);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> known;
    auto symbol = [&] { return static_cast<std::uint32_t>(random() % (pairs / 4 + 2)); };
    for (std::uint32_t rank = 0; rank < pairs; ++rank) {
      const std::uint32_t left = symbol(), right = symbol(), merged = symbol();
      table.set(left, right, rank, merged);
      known[{left, right}] = std::uint64_t{rank} << 32 | merged;
    }
    for (const auto& [pair, value] : known) REQUIRE(table.find(pair.first, pair.second) == value);
    for (int n = 0; n < 20000; ++n) {
      const std::uint32_t left = symbol(), right = symbol();
      const auto found = known.find({left, right});
      REQUIRE(table.find(left, right) == (found == known.end() ? PairTable::kNone : found->second));
    }
    CHECK(table.find(0, 0x7FFFFFFF) == PairTable::kNone);
  }
}

}  // namespace
}  // namespace mtl
