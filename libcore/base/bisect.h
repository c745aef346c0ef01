// Binary search over the numbers from 0.
#pragma once

#include <cstdint>

namespace mtl {

/// Returns the first number in [0, count) for which `is_before` returns false, or `count` if there is none. `is_before`
/// must not return true for a number after that one.
template <class IsBefore>
std::int64_t bisect(std::int64_t count, const IsBefore& is_before) {
  std::int64_t low = 0;
  while (low < count) {
    const std::int64_t middle = low + (count - low) / 2;
    if (is_before(middle))
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

}  // namespace mtl
