// A keyed permutation of [0, n) that is computed, not kept. It needs no memory and no setup, and each entry
// takes about 50 ns.
//
// Let h >= 1 be the smallest integer with 4^h >= n. A 2h-bit number is split into halves (L, R). Each of six rounds
// maps (L, R) to (R, L xor F(key, round, R)), where F is splitmix64's 64-bit mix (Steele et al. 2014), truncated to h
// bits. A round is invertible for every F, so the rounds together are a bijection on [0, 4^h).
//
// A result that is not below n is permuted again (cycle walking, Black and Rogaway 2002). The walk follows a cycle of
// the bijection. It ends, because the cycle leads back to the starting number, which is below n. Two different starting
// numbers below n cannot end at the same number. Since 4^h <= 4 n, a call needs at most four permutations on average.
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
  /// Returns entry i of the permutation. i must be in [0, n).
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, 6> round_keys_;
};

}  // namespace mtl
