#include "data/numpy_random.h"

#include <bit>
#include <numeric>

namespace mtl {

std::uint32_t NumpyRandom::draw_up_to(std::uint32_t max) {
  const std::uint32_t mask = UINT32_MAX >> std::countl_zero(max);  // max >= 1 here
  for (;;) {
    const auto draw = static_cast<std::uint32_t>(engine_()) & mask;
    if (draw <= max) return draw;
  }
}

std::vector<std::int64_t> torch_randperm(std::uint64_t seed, std::int64_t n) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 32) / 20;
  require(n >= 0 && n < kLimit, "torch_randperm: ", n, " items are not in [0, ", kLimit, ")");
  std::vector<std::int64_t> items(static_cast<std::size_t>(n));
  std::iota(items.begin(), items.end(), 0);
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    std::swap(items[i], items[i + engine() % (items.size() - i)]);
  }
  return items;
}

}  // namespace mtl
