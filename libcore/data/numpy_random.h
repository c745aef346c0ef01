// The two random streams that decide the order of training data, bit for bit: NumPy's legacy RandomState(seed).shuffle
// and torch.randperm, both on top of mt19937 (std::mt19937 seeded alike gives the same 32-bit draws).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace mtl {

/// numpy.random.RandomState(seed), as far as shuffling goes: consecutive shuffles continue one stream.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  /// RandomState.shuffle. The permutation depends on the number of items alone, which must be below 2^32.
  template <class T>
  void shuffle(std::span<T> items) {
    require(items.size() <= UINT32_MAX, "shuffle: ", items.size(), " items are too many for 32-bit draws");
    for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[draw_up_to(static_cast<std::uint32_t>(i))]);
  }

 private:
  /// A number in [0, max] by masked rejection: draws are cut to the bits of max until one is not beyond it.
  std::uint32_t draw_up_to(std::uint32_t max);

  std::mt19937 engine_;
};

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)): only the low 32 bits of the seed matter.
/// From 2^32 / 20 items on torch draws otherwise: such n throw Error(failure).
std::vector<std::int64_t> torch_randperm(std::uint64_t seed, std::int64_t n);

}  // namespace mtl
