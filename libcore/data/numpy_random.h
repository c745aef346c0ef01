// Bit-exact versions of the two random generators that determine the training data order: NumPy's legacy
// RandomState(seed).shuffle and torch.randperm. Both are based on MT19937.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/mt19937.h"

namespace mtl {

/// Shuffles like numpy.random.RandomState(seed). Consecutive calls continue the same random stream.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : stream_(seed) {}

  /// Like RandomState.shuffle: for i = n-1 .. 1, swaps item i with item j, where j is drawn from [0, i]. The
  /// permutation depends only on the number of items, which must be below 2^32.
  template <class T>
  void shuffle(std::span<T> items) {
    require(items.size() <= UINT32_MAX, "shuffle: ", items.size(), " items are too many for 32-bit draws");
    // The draws do not depend on the items, so we make them before the swaps and prefetch the items.
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
  /// Fills `out` with one draw from [0, max], one from [0, max - 1], and so on. Uses masked rejection: each random
  /// number is masked to the bits of the current bound, and rejected if it still exceeds the bound.
  void draw(std::uint32_t max, std::span<std::uint32_t> out);

  Mt19937 stream_;
};

/// Returns torch.randperm(n, generator=torch.Generator().manual_seed(seed)). Only the low 32 bits of the seed matter.
/// Throws Error(usage) for n >= 2^32 / 20, where torch uses a different algorithm.
std::vector<std::int64_t> torch_randperm(std::uint64_t seed, std::int64_t n);

}  // namespace mtl
