// Arithmetic on user-chosen sizes, whose products may exceed 64 bits.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace mtl {

/// Returns the product of `factors`, or nullopt if a partial product overflows 64 bits. Any zero factor makes it 0.
inline std::optional<std::int64_t> checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  bool fits = true;
  for (const std::int64_t factor : factors) {
    if (factor == 0) return 0;
    fits = fits && !__builtin_mul_overflow(product, factor, &product);
  }
  return fits ? std::optional(product) : std::nullopt;
}

}  // namespace mtl
