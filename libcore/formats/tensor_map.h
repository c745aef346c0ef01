// Maps a canonical tensor's elements to tensors in files, and copies elements in both directions.
//
// A canonical tensor is cut into pieces. A piece is a box in the canonical tensor that one file tensor contains.
// Along each axis of the box, elements have a constant stride in the file. Pieces can describe transposed linears;
// queries, keys and values in one tensor or in three, in any order; tensor parallel shards; and extra padding rows in
// the file. Elements are copied bit for bit, and only the elements in the requested slice are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layout/slice.h"

namespace mtl {

struct TensorPiece {
  Slice box;                               // in the canonical tensor; the element range covers the entire box
  std::size_t file = 0;                    // index in the caller's list of file tensors
  std::int64_t file_offset = 0;            // of the box's first element in the file tensor, in elements
  std::vector<std::int64_t> file_strides;  // along each axis of the box, in elements
};

/// Returns the distances along each axis of a dense tensor with this shape, in elements.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);

/// Returns a piece whose elements are dense in the file tensor, starting at element `file_offset`. `order` lists the
/// box's axes in file order, slowest first: {1, 0} is a transposed matrix. An empty `order` means the canonical order.
TensorPiece dense_piece(std::size_t file, const Slice& box, const std::vector<int>& order = {},
                        std::int64_t file_offset = 0);

/// Cuts the row-major element range [begin, end) of a box with size `size` into smaller boxes. Calls found(first index,
/// size) for each, in order.
void for_each_box(
    const std::vector<std::int64_t>& size, std::int64_t begin, std::int64_t end,
    const std::function<void(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& size)>& found);

/// True if the file tensor starts with the box's elements, in the same order.
bool is_same_order(const TensorPiece& piece);

/// Called before elements of a file tensor are copied, all of which are in its first `end` bytes.
using BeforeCopy = std::function<void(std::size_t file, std::size_t end)>;

/// Copies the elements of a canonical tensor's slice to `out`. `files` contains the contents of the file tensors.
/// Throws if the pieces do not hold all elements of the slice, or if a file tensor is too short for its piece.
void gather_slice(std::span<const TensorPiece> pieces, const Slice& slice, std::size_t element_bytes,
                  std::span<const std::span<const std::byte>> files, std::span<std::byte> out,
                  const BeforeCopy& before_copy = {});

/// The reverse of gather_slice(): copies `box`, the elements in the piece's box, into the file tensor.
void scatter_piece(const TensorPiece& piece, std::size_t element_bytes, std::span<const std::byte> box,
                   std::span<std::byte> file);

}  // namespace mtl
