#include "data/feistel.h"

#include <bit>

#include "base/error.h"

namespace mtl {

std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

KeyedPermutation::KeyedPermutation(std::int64_t n, std::uint64_t key) : size_(static_cast<std::uint64_t>(n)) {
  require(n >= 1 && n <= (std::int64_t{1} << 62), "KeyedPermutation: size ", n);
  const int bits = static_cast<int>(std::bit_width(size_ - 1));
  half_bits_ = std::max(1, (bits + 1) / 2);
  for (std::uint64_t& round_key : round_keys_) round_key = mix_bits(key += 0x9e3779b97f4a7c15u);
}

std::int64_t KeyedPermutation::operator()(std::int64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (const std::uint64_t round_key : round_keys_) {
      const std::uint64_t next = left ^ (mix_bits(right ^ round_key) & mask);
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= size_);
  return x;
}

}  // namespace mtl
