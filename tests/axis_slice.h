// One of the equal parts of a tensor along an axis.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "layout/slice.h"

namespace mtl {

/// Returns part number `part` of the `parts` equal parts into which `axis` of a tensor with this shape is cut.
inline Slice axis_slice(const std::vector<std::int64_t>& shape, int axis, std::int64_t part, std::int64_t parts) {
  const std::int64_t extent = shape.at(axis);
  require(extent % parts == 0, "an axis of ", extent, " cannot be cut into ", parts, " equal parts");
  return narrow(whole_slice(shape), axis, part * (extent / parts), extent / parts);
}

}  // namespace mtl
