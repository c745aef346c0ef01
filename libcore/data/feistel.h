// A keyed permutation of [0, n) that is computed, not stored: no memory, no start-up, any entry in about 50 ns.
//
// A number of 2h bits, h >= 1 the least with 4^h >= n, is split into halves (L, R); six rounds map (L, R) to
// (R, L xor F(key, round, R)), F a 64-bit mix (splitmix64's, Steele et al. 2014) cut to h bits. Each round is
// invertible for any F, so their composition is a bijection of [0, 4^h). A result that is not below n is permuted again
// (cycle walking, Black and Rogaway 2002): the walk follows the bijection's cycle, which returns to its start at the
// latest, so it ends, and two different starts below n cannot end on the same number. 4^h <= 4 n: at most four passes
// on average.
#pragma once

#include <array>
#include <cstdint>

namespace mtl {

/// splitmix64's finalizer: every bit of the result depends on every bit of x.
std::uint64_t mix_bits(std::uint64_t x);

class KeyedPermutation {
 public:
  /// Requires n in [1, 2^62].
  KeyedPermutation(std::int64_t n, std::uint64_t key);
  /// Returns entry i of the permutation. Requires i in [0, n).
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, 6> round_keys_;
};

}  // namespace mtl
