#include "formats/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"

namespace mtl {

namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t dot(const Sizes& a, const Sizes& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0});
}

/// A loop in a copy: `count` elements, with strides `from` in the source and `to` in the destination.
struct CopyAxis {
  std::int64_t count, from, to;
};

/// Drops axes of size 1, sorts the others by descending stride in the destination, and merges neighboring axes that are
/// contiguous in both the source and the destination.
std::vector<CopyAxis> join_axes(std::vector<CopyAxis> axes) {
  std::erase_if(axes, [](const CopyAxis& axis) { return axis.count == 1; });
  std::ranges::sort(axes, [](const CopyAxis& a, const CopyAxis& b) { return a.to > b.to; });
  for (std::size_t i = axes.size(); i-- > 1;) {
    const CopyAxis &outer = axes[i - 1], &inner = axes[i];
    if (outer.from != inner.from * inner.count || outer.to != inner.to * inner.count) continue;
    axes[i - 1] = {.count = outer.count * inner.count, .from = inner.from, .to = inner.to};
    axes.erase(axes.begin() + i);
  }
  return axes;
}

/// Calls copy(source offset, destination offset) for every index of `axes`.
template <class Copy>
void for_each_index(const std::vector<CopyAxis>& axes, const Copy& copy) {
  Sizes index(axes.size(), 0);
  std::int64_t from = 0, to = 0;
  while (true) {
    copy(from, to);
    std::size_t axis = axes.size();
    for (; axis > 0; --axis) {
      const CopyAxis& at = axes[axis - 1];
      from += at.from, to += at.to;
      if (++index[axis - 1] < at.count) break;
      index[axis - 1] = 0;
      from -= at.count * at.from, to -= at.count * at.to;
    }
    if (axis == 0) return;
  }
}

/// Copies two axes in tiles, so that the source and the destination stay in cache. `rows` has the smallest stride in
/// the source, and `columns` has the smallest stride in the destination.
template <std::size_t kBytes>
void copy_tiles(const CopyAxis& rows, const CopyAxis& columns, const std::byte* from, std::byte* to) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t first_row = 0; first_row < rows.count; first_row += kTile) {
    const std::int64_t end_row = std::min(rows.count, first_row + kTile);
    for (std::int64_t first = 0; first < columns.count; first += kTile) {
      const std::int64_t end = std::min(columns.count, first + kTile);
      for (std::int64_t r = first_row; r < end_row; ++r) {
        for (std::int64_t c = first; c < end; ++c) {
          std::memcpy(to + (r * rows.to + c * columns.to) * kBytes, from + (r * rows.from + c * columns.from) * kBytes,
                      kBytes);
        }
      }
    }
  }
}

template <std::size_t kBytes>
void copy_strided(std::vector<CopyAxis> axes, const std::byte* from, std::byte* to) {
  axes = join_axes(std::move(axes));
  CopyAxis columns{1, 1, 1}, rows{1, 1, 1};
  if (!axes.empty()) {
    columns = axes.back();
    axes.pop_back();
  }
  if (columns.from == 1 && columns.to == 1) {
    return for_each_index(axes, [&](std::int64_t from_at, std::int64_t to_at) {
      std::memcpy(to + to_at * kBytes, from + from_at * kBytes, columns.count * kBytes);
    });
  }
  auto nearest = std::ranges::min_element(axes, [](const CopyAxis& a, const CopyAxis& b) { return a.from < b.from; });
  if (nearest != axes.end()) {
    rows = *nearest;
    axes.erase(nearest);
  }
  for_each_index(axes, [&](std::int64_t from_at, std::int64_t to_at) {
    copy_tiles<kBytes>(rows, columns, from + from_at * kBytes, to + to_at * kBytes);
  });
}

void copy_strided(std::size_t element_bytes, const std::vector<CopyAxis>& axes, const std::byte* from, std::byte* to) {
  switch (element_bytes) {
    case 1:
      return copy_strided<1>(axes, from, to);
    case 2:
      return copy_strided<2>(axes, from, to);
    case 4:
      return copy_strided<4>(axes, from, to);
    case 8:
      return copy_strided<8>(axes, from, to);
    default:
      fail(Exit::failure, "gather_slice() or scatter_piece() was called with elements of ", element_bytes,
           " bytes, but copies only elements of 1, 2, 4 or 8 bytes");
  }
}

void check_extent(const TensorPiece& piece, std::size_t element_bytes, std::size_t file_bytes) {
  std::int64_t last = piece.file_offset;
  for (std::size_t axis = 0; axis < piece.box.size.size(); ++axis)
    last += (piece.box.size[axis] - 1) * piece.file_strides[axis];
  require(piece.file_offset >= 0 && (last + 1) * element_bytes <= file_bytes, "a piece ends at element ", last,
          " of a file tensor of ", file_bytes, " bytes");
}

}  // namespace

Sizes row_major_strides(const Sizes& size) {
  Sizes strides(size.size(), 1);
  for (std::size_t axis = size.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * size[axis];
  return strides;
}

void for_each_box(const Sizes& size, std::int64_t begin, std::int64_t end,
                  const std::function<void(const Sizes& first, const Sizes& size)>& found) {
  const Sizes strides = row_major_strides(size);
  Sizes offset(size.size(), 0);
  while (begin < end) {
    // Find the largest box that starts at `begin`: as many complete rows as fit, along the outermost axis where a row
    // starts at `begin` and ends no later than `end`.
    std::size_t axis = 0;
    while (axis + 1 < size.size() && (begin % strides[axis] != 0 || end - begin < strides[axis])) ++axis;
    Sizes box(size.size(), 1);
    std::int64_t remainder = begin;
    for (std::size_t i = 0; i < size.size(); ++i) {
      offset[i] = remainder / strides[i], remainder %= strides[i];
      if (i > axis) box[i] = size[i];
    }
    std::int64_t count = 1;
    if (!size.empty()) {
      box[axis] = std::min(size[axis] - offset[axis], (end - begin) / strides[axis]);
      count = box[axis] * strides[axis];
    }
    found(offset, box);
    begin += count;
  }
}

TensorPiece dense_piece(std::size_t file, const Slice& box, const std::vector<int>& order, std::int64_t file_offset) {
  TensorPiece piece{.box = box, .file = file, .file_offset = file_offset, .file_strides = row_major_strides(box.size)};
  require(order.empty() || order.size() == piece.box.size.size(), "an order of ", order.size(), " axes for a box of ",
          piece.box.size.size());
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    piece.file_strides.at(order[i]) = stride;
    stride *= piece.box.size[order[i]];
  }
  return piece;
}

bool is_same_order(const TensorPiece& piece) {
  return piece.file_offset == 0 && piece.file_strides == row_major_strides(piece.box.size);
}

void gather_slice(std::span<const TensorPiece> pieces, const Slice& slice, std::size_t element_bytes,
                  std::span<const std::span<const std::byte>> files, std::span<std::byte> out,
                  const BeforeCopy& before_copy) {
  require(out.size() == slice.count() * element_bytes, "a slice of ", slice.count(), " elements into ", out.size(),
          " bytes");
  const Sizes strides = row_major_strides(slice.size);
  std::int64_t copied = 0;
  for_each_box(slice.size, slice.begin, slice.end, [&](const Sizes& first, const Sizes& size) {
    for (const TensorPiece& piece : pieces) {
      check_extent(piece, element_bytes, files[piece.file].size());
      std::int64_t from = piece.file_offset, to = dot(first, strides) - slice.begin, count = 1, length = 1;
      std::vector<CopyAxis> axes;
      for (std::size_t axis = 0; axis < size.size(); ++axis) {
        const std::int64_t begin = slice.offset[axis] + first[axis];  // index in the canonical tensor
        const std::int64_t shared_begin = std::max(begin, piece.box.offset[axis]);
        const std::int64_t shared_end = std::min(begin + size[axis], piece.box.offset[axis] + piece.box.size[axis]);
        axes.push_back({.count = std::max<std::int64_t>(0, shared_end - shared_begin),
                        .from = piece.file_strides[axis],
                        .to = strides[axis]});
        from += (shared_begin - piece.box.offset[axis]) * piece.file_strides[axis];
        to += (shared_begin - begin) * strides[axis];
        length += (axes.back().count - 1) * axes.back().from;
        count *= axes.back().count;
      }
      if (count == 0) continue;
      const auto bytes = std::int64_t(element_bytes);
      if (before_copy) before_copy(piece.file, (from + length) * bytes);
      copy_strided(element_bytes, axes, files[piece.file].data() + from * bytes, out.data() + to * bytes);
      copied += count;
    }
  });
  require(copied == slice.count(), "the pieces hold ", copied, " of ", slice.count(), " elements");
}

void scatter_piece(const TensorPiece& piece, std::size_t element_bytes, std::span<const std::byte> box,
                   std::span<std::byte> file) {
  require(box.size() == piece.box.count() * element_bytes, "a piece of ", piece.box.count(), " elements from ",
          box.size(), " bytes");
  if (box.empty()) return;
  check_extent(piece, element_bytes, file.size());
  const Sizes strides = row_major_strides(piece.box.size);
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < strides.size(); ++axis)
    axes.push_back({.count = piece.box.size[axis], .from = strides[axis], .to = piece.file_strides[axis]});
  copy_strided(element_bytes, axes, box.data(), file.data() + piece.file_offset * std::int64_t(element_bytes));
}

}  // namespace mtl
