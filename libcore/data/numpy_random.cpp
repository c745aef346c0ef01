#include "data/numpy_random.h"

#include <bit>
#include <numeric>

namespace mtl {

void NumpyRandom::draw(std::uint32_t max, std::span<std::uint32_t> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const std::uint32_t mask = UINT32_MAX >> std::countl_zero(max);  // max >= 1 here
    // All bounds with the same number of bits use the same mask.
    std::size_t needed = std::min<std::size_t>(out.size() - filled, max - (mask >> 1));
    while (needed > 0) {
      std::size_t unread = 0, used = 0;
      const std::uint32_t* draws = stream_.unread(unread);
      for (; used < unread && needed > 0; ++used) {
        const std::uint32_t number = draws[used] & mask;
        const std::uint32_t fits = number <= max;  // avoids a branch, which would be unpredictable
        out[filled] = number;
        filled += fits;
        max -= fits;
        needed -= fits;
      }
      stream_.consume(used);
    }
  }
}

std::vector<std::int64_t> torch_randperm(std::uint64_t seed, std::int64_t n) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 32) / 20;
  require(n >= 0, "torch_randperm: ", n, " items");
  if (n >= kLimit) {
    fail(Exit::usage, "--dataloader-type cyclic: a rank shuffles ", n,
         " samples, but mtl shuffles as torch does only up to ", kLimit - 1,
         "; use --dataloader-type single or, without --no-data-sharding, more data-parallel ranks");
  }
  std::vector<std::int64_t> items(n);
  std::iota(items.begin(), items.end(), 0);
  Mt19937 stream(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    std::swap(items[i], items[i + stream.next() % (items.size() - i)]);
  }
  return items;
}

}  // namespace mtl
