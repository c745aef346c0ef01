// A part of a global tensor. Layouts and checkpoints communicate through slices.
//
// A slice is a box in the n-dimensional tensor, and a range of elements in that box, in row-major order. Tensor
// parallelism divides tensors into boxes. The sharded optimizer divides a box into ranges, which may be empty.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mtl {

struct Slice {
  std::vector<std::int64_t> offset;  // first index in the box, per axis
  std::vector<std::int64_t> size;    // the box's extent, per axis
  std::int64_t begin = 0;            // element range [begin, end) within the box
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// Returns a shape as text for messages: "(512, 64)".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Returns a slice that covers an entire tensor with this shape.
Slice whole_slice(const std::vector<std::int64_t>& shape);

/// Returns the part of a box with `count` indices along `axis`, starting at index `first` of the box.
Slice narrow(Slice box, int axis, std::int64_t first, std::int64_t count);

/// True if the boxes of two slices have an index in common.
bool boxes_meet(const Slice& a, const Slice& b);

/// A run of `count` elements that are contiguous in both slices' storages. It starts at element in_a in a's storage and
/// at element in_b in b's storage.
struct Overlap {
  std::int64_t in_a, in_b, count;
};

/// Calls `found` for every maximal run that `a` and `b` share, in ascending in_a order.
void for_each_overlap(const Slice& a, const Slice& b, const std::function<void(const Overlap&)>& found);
/// True if two slices have an element in common.
bool share_elements(const Slice& a, const Slice& b);

}  // namespace mtl
