// Size of a group's staging buffer for reductions; a header of its own because memory plans include it.
#pragma once

#include <algorithm>
#include <cstddef>

namespace mtl {

inline constexpr std::size_t kSmallReduction = 8 << 10;  // bytes; all-reduces of up to this size take one step
inline constexpr int kStagingSlots = 2;                  // one segment is added while the next one arrives

/// Bytes of one rank's segment in the staging buffer; smaller in large groups, so that the buffer stays small.
constexpr std::size_t segment_bytes(int size) {
  std::size_t share = (std::size_t{8} << 20) / (kStagingSlots * size);
  return std::clamp<std::size_t>(share, kSmallReduction, 128 << 10) / kSmallReduction * kSmallReduction;
}

/// Bytes of the whole buffer of a group of `size` ranks.
constexpr std::size_t staging_bytes(int size) { return kStagingSlots * size * segment_bytes(size); }

}  // namespace mtl
