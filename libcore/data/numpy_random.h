// The two random streams that determine the order of training data, bit for bit: NumPy's legacy
// RandomState(seed).shuffle and torch.randperm, both on top of mt19937.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/mt19937.h"

namespace mtl {

/// The shuffles of numpy.random.RandomState(seed); consecutive calls continue one stream.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : stream_(seed) {}

  /// RandomState.shuffle: for i = n-1 .. 1, swaps items i and draw(i). The permutation depends only on the number of
  /// items, which must be below 2^32.
  template <class T>
  void shuffle(std::span<T> items) {
    require(items.size() <= UINT32_MAX, "shuffle: ", items.size(), " items are too many for 32-bit draws");
    // Draws do not depend on the items: drawing ahead allows prefetching them.
    std::array<std::uint32_t, 1024> partners;
    for (std::size_t left = items.size(); left > 1;) {
      const std::size_t count = std::min(left - 1, partners.size());
      draw(static_cast<std::uint32_t>(left - 1), std::span(partners).first(count));
      constexpr std::size_t kAhead = 48;
      for (std::size_t k = 0; k < std::min(kAhead, count); ++k) __builtin_prefetch(&items[partners[k]], 1);
      for (std::size_t k = 0; k < count; ++k) {
        if (k + kAhead < count) __builtin_prefetch(&items[partners[k + kAhead]], 1);
        std::swap(items[left - 1 - k], items[partners[k]]);
      }
      left -= count;
    }
  }

 private:
  /// Fills `out` with numbers in [0, max], [0, max - 1], ... by masked rejection: draws are masked to the bits of the
  /// bound until one does not exceed it.
  void draw(std::uint32_t max, std::span<std::uint32_t> out);

  Mt19937Stream stream_;
};

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)): only the low 32 bits of the seed matter.
/// Throws Error(usage) for n >= 2^32 / 20, where torch draws differently.
std::vector<std::int64_t> torch_randperm(std::uint64_t seed, std::int64_t n);

}  // namespace mtl
