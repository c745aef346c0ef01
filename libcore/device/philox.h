// Philox4x32-10, the counter-based random number generator for dropout and initial weights (Salmon et al. 2011). Its
// output depends only on key and counter, never on the number of ranks, threads or micro-batches.
#pragma once

#include <array>
#include <cstdint>

namespace mtl {

/// Selects a random sequence. `seed` is the run's seed. `site` identifies the use, such as dropout in one layer.
struct PhiloxKey {
  std::uint32_t seed;
  std::uint32_t site;
};

/// Returns sixteen random bytes for the counter (sample, block). For dropout, `sample` is the training sample's global
/// index, and `block` is a block of elements within that sample.
constexpr std::array<std::uint32_t, 4> philox(PhiloxKey key, std::uint64_t sample, std::uint64_t block) {
  std::uint32_t c0 = static_cast<std::uint32_t>(block), c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(sample), c3 = static_cast<std::uint32_t>(sample >> 32);
  std::uint32_t k0 = key.seed, k1 = key.site;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t low = std::uint64_t{0xD2511F53} * c0, high = std::uint64_t{0xCD9E8D57} * c2;
    std::uint32_t n0 = static_cast<std::uint32_t>(high >> 32) ^ c1 ^ k0;
    std::uint32_t n2 = static_cast<std::uint32_t>(low >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(high);
    c3 = static_cast<std::uint32_t>(low);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

}  // namespace mtl
