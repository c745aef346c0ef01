// A part of a global tensor: the interface between layouts and checkpoints.
//
// A slice is a box of the n-dimensional tensor and a range of elements inside that box (row-major). Tensor parallelism
// cuts boxes, and the sharded optimizer cuts ranges; an empty range is legal.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mtl {

struct Slice {
  std::vector<std::int64_t> offset;  // first index of the box, per axis
  std::vector<std::int64_t> size;    // extent of the box, per axis
  std::int64_t begin = 0;            // element range [begin, end) within the box
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// Returns the slice of a whole tensor.
Slice whole_slice(const std::vector<std::int64_t>& shape);

/// Returns part `part` of `parts` equal parts along `axis`. Throws if the axis does not divide by `parts`.
Slice axis_slice(const std::vector<std::int64_t>& shape, int axis, std::int64_t part, std::int64_t parts);

/// A run of `count` elements that is contiguous in the storage of both slices: it begins at element in_a of a's
/// storage, and in_b of b's.
struct Overlap {
  std::int64_t in_a, in_b, count;
};

/// Calls `found` for every maximal run that both slices hold, in ascending order of in_a.
void for_each_overlap(const Slice& a, const Slice& b, const std::function<void(const Overlap&)>& found);

}  // namespace mtl
