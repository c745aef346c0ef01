// Checks slices of a tensor that a file states: whether they are inside it, and which of them share an element.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "layout/slice.h"

namespace mtl {

/// Returns the indices of two slices that share an element, or empty if there are none. Takes O(n log n) steps for the
/// grids of boxes, with multiple element ranges per box, that parallel layouts produce.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<const Slice*>& slices);

/// True if a slice has as many axes as a tensor of this shape, and its box lies inside the tensor. Its sizes and
/// offsets must not be negative.
bool is_inside(const Slice& slice, const std::vector<std::int64_t>& shape);

}  // namespace mtl
