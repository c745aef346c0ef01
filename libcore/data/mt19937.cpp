#include "data/mt19937.h"

namespace mtl {

namespace {

constexpr std::size_t kMiddle = 397;

std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t both = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (both >> 1) ^ (-(both & 1u) & 0x9908b0dfu);
}

std::uint32_t temper(std::uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace

Mt19937::Mt19937(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kBlock; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

void Mt19937::refill() {
  std::uint32_t* s = state_.data();
  // The first kBefore numbers read the old state from index kMiddle on. The others read the new state.
  constexpr std::size_t kBefore = kBlock - kMiddle;
  for (std::size_t i = 0; i < kBefore; ++i) s[i] = s[i + kMiddle] ^ twist(s[i], s[i + 1]);
  for (std::size_t i = kBefore; i + 1 < kBlock; ++i) s[i] = s[i - kBefore] ^ twist(s[i], s[i + 1]);
  s[kBlock - 1] = s[kMiddle - 1] ^ twist(s[kBlock - 1], s[0]);
  for (std::size_t i = 0; i < kBlock; ++i) out_[i] = temper(s[i]);
  at_ = 0;
}

}  // namespace mtl
