// Binary search over the numbers from 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>

namespace mtl {

/// Returns the first number in [0, count) for which `is_before` returns false, or `count` if there is none. `is_before`
/// must not return true for a number after that one.
template <class IsBefore>
std::int64_t bisect(std::int64_t count, const IsBefore& is_before) {
  return *std::ranges::partition_point(std::views::iota(std::int64_t{0}, count), is_before);
}

}  // namespace mtl
