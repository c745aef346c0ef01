#include "layout/ownership.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mtl {

namespace {

/// The axes along which ranks hold different elements.
AxisSet split_over(const Ownership& ownership) {
  AxisSet axes;
  for (const Shard& shard : ownership.shards) axes = axes | shard.over;
  return axes;
}

}  // namespace

std::vector<std::int64_t> held_shape(const Ownership& ownership, std::vector<std::int64_t> shape,
                                     std::int64_t padded_rows, const RankGrid& grid) {
  if (padded_rows > 0) shape[0] = padded_rows;
  for (const Shard& shard : ownership.shards) {
    const int parts = grid.size(shard.over);
    std::int64_t& size = shape[shard.axis];
    require(size % parts == 0, size, " is not divisible by the ", parts, " ranks of the axis ", short_name(shard.over));
    size /= parts;
  }
  return shape;
}

Slice held(const Ownership& ownership, const std::vector<std::int64_t>& shape, std::int64_t padded_rows,
           const RankGrid& grid, int rank) {
  std::vector<std::int64_t> offset(shape.size(), 0), size = shape;
  for (const auto& [axis, over] : ownership.shards) {
    const std::int64_t whole = axis == 0 && padded_rows > 0 ? padded_rows : shape[axis], part = whole / grid.size(over);
    offset[axis] = std::min(grid.coordinate(rank, over) * part, shape[axis]);
    size[axis] = std::min(offset[axis] + part, shape[axis]) - offset[axis];
  }
  Slice out = whole_slice(size);
  out.offset = std::move(offset);
  return out;
}

ElementRange owned_range(const Ownership& ownership, std::int64_t count, const RankGrid& grid, int rank) {
  const int parts = grid.size(ownership.owners);
  require(count % parts == 0, count, " elements cannot be divided among ", parts, " owners");
  const std::int64_t begin = grid.index_in_group(rank, ownership.owners) * (count / parts);
  return {begin, begin + count / parts};
}

bool writes(const Ownership& ownership, const RankGrid& grid, int rank) {
  const AxisSet same = AxisSet::all() - Axis::pipeline - ownership.owners - split_over(ownership);
  if (grid.index_in_group(rank, same) != 0) return false;
  return !ownership.on_end_stages || grid.coordinate(rank, Axis::pipeline) == 0;
}

}  // namespace mtl
