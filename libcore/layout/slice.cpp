#include "layout/slice.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return cat("(", join(shape, ", ", cat<std::int64_t>), ")");
}

Slice whole_slice(const std::vector<std::int64_t>& shape) {
  Slice out;
  out.offset.assign(shape.size(), 0);
  out.size = shape;
  out.end = 1;
  for (std::int64_t size : shape) out.end *= size;
  return out;
}

Slice narrow(Slice box, int axis, std::int64_t first, std::int64_t count) {
  box.offset.at(axis) += first;
  box.size[axis] = count;
  box.end = whole_slice(box.size).count();
  return box;
}

bool boxes_meet(const Slice& a, const Slice& b) {
  for (std::size_t axis = 0; axis < a.size.size(); ++axis) {
    if (a.offset[axis] >= b.offset[axis] + b.size[axis] || b.offset[axis] >= a.offset[axis] + a.size[axis])
      return false;
  }
  return true;
}

namespace {

/// Returns the global index where row `number` in the slice's box starts. A row extends along the last axis.
std::vector<std::int64_t> row_index(const Slice& slice, std::int64_t number) {
  std::vector<std::int64_t> index = slice.offset;
  for (std::size_t axis = slice.size.size() - 1; axis-- > 0;) {
    index[axis] += number % slice.size[axis];
    number /= slice.size[axis];
  }
  return index;
}

/// Makes runs as long as possible: while both boxes span the same range along the last axis, consecutive rows are
/// contiguous in both storages, so we can merge that axis into the axis before it.
void join_common_axes(Slice& a, Slice& b) {
  while (a.size.size() > 1 && a.size.back() == b.size.back() && a.offset.back() == b.offset.back()) {
    for (Slice* slice : {&a, &b}) {
      std::int64_t width = slice->size.back();
      slice->offset.pop_back();
      slice->size.pop_back();
      slice->offset.back() *= width;
      slice->size.back() *= width;
    }
  }
}

}  // namespace

void for_each_overlap(const Slice& of_a, const Slice& of_b, const std::function<void(const Overlap&)>& found) {
  if (of_a.count() == 0 || of_b.count() == 0 || !boxes_meet(of_a, of_b)) return;
  if (of_a.offset.empty()) return found({.in_a = 0, .in_b = 0, .count = 1});  // a scalar
  Slice a = of_a, b = of_b;
  join_common_axes(a, b);
  std::size_t last = a.size.size() - 1;
  std::int64_t width_a = a.size[last], width_b = b.size[last];
  for (std::int64_t row = a.begin / width_a; row <= (a.end - 1) / width_a; ++row) {
    std::vector<std::int64_t> index = row_index(a, row);
    std::int64_t row_b = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < last; ++axis) {
      std::int64_t local = index[axis] - b.offset[axis];
      inside = inside && local >= 0 && local < b.size[axis];
      row_b = row_b * b.size[axis] + local;
    }
    if (!inside) continue;
    // Columns [first, end) are in both boxes and both element ranges. Both slices count columns alike, in global
    // coordinates.
    std::int64_t first = std::max({a.offset[last] + std::max<std::int64_t>(0, a.begin - row * width_a),
                                   b.offset[last] + std::max<std::int64_t>(0, b.begin - row_b * width_b)});
    std::int64_t end = std::min({a.offset[last] + std::min(width_a, a.end - row * width_a),
                                 b.offset[last] + std::min(width_b, b.end - row_b * width_b)});
    if (first >= end) continue;
    found({.in_a = row * width_a + first - a.offset[last] - a.begin,
           .in_b = row_b * width_b + first - b.offset[last] - b.begin,
           .count = end - first});
  }
}

bool share_elements(const Slice& a, const Slice& b) {
  bool is_found = false;
  for_each_overlap(a, b, [&](const Overlap&) { is_found = true; });
  return is_found;
}

}  // namespace mtl
