// Cuts a slice into consecutive parts that are small enough to stay in the cache, so that whoever verifies, converts,
// counts and writes a part reads it from memory only once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "layout/slice.h"

namespace mtl {

/// Bytes of a part. Fits in the second-level cache of a core, together with its copy in another dtype.
inline constexpr std::size_t kStepBytes = std::size_t{256} << 10;

/// Calls step(part, first) for consecutive parts of a slice with at most `bytes` bytes each, or one element. `first` is
/// the number of elements before the part.
template <class Step>
void for_each_step(const Slice& slice, std::size_t element_bytes, std::size_t bytes, const Step& step) {
  const auto elements = static_cast<std::int64_t>(std::max<std::size_t>(1, bytes / element_bytes));
  Slice part = slice;
  for (part.begin = slice.begin; part.begin < slice.end; part.begin = part.end) {
    part.end = part.begin + std::min(elements, slice.end - part.begin);
    step(part, part.begin - slice.begin);
  }
}

}  // namespace mtl
