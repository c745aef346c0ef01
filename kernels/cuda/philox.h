// Extracts an element's random bits from a Philox call, which 8 consecutive elements share (device/philox.h).
#pragma once

#include "device/philox.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

/// Returns 16 bits for element `number`, from the call that serves it: half of word number % 8 / 2. Even elements take
/// the low half, odd elements the high half.
__device__ inline std::uint32_t philox_bits(const std::array<std::uint32_t, 4>& words, std::uint64_t number) {
  std::uint32_t word = 0;
#pragma unroll
  for (unsigned w = 0; w < 4; ++w) word = number % 8 / 2 == w ? words[w] : word;  // not indexed: stays in registers
  return number % 2 == 0 ? word & 0xFFFF : word >> 16;
}

}  // namespace mtl::cuda
