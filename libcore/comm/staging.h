// Computes the size of a group's staging buffer for reductions. A separate header, so that the memory planner can use
// it too.
#pragma once

#include <algorithm>
#include <cstddef>

namespace mtl {

inline constexpr std::size_t kSmallReduction = 8 << 10;  // in bytes; all-reduces up to this size take one step
inline constexpr int kStagingSlots = 2;                  // one segment is summed while the next one arrives

/// Returns the size in bytes of one rank's segment in the staging buffer. Larger groups have smaller segments, which
/// limits the buffer size.
constexpr std::size_t segment_bytes(int size) {
  std::size_t share = (std::size_t{8} << 20) / (kStagingSlots * size);
  return std::clamp<std::size_t>(share, kSmallReduction, 128 << 10) / kSmallReduction * kSmallReduction;
}

/// Returns the size in bytes of the entire staging buffer for `size` ranks.
constexpr std::size_t staging_bytes(int size) { return kStagingSlots * size * segment_bytes(size); }

}  // namespace mtl
