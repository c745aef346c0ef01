// Where a file's tensors hold the elements of a canonical tensor, and the one mover between the two, in both
// directions.
//
// A canonical tensor is cut into pieces. A piece is a box of it that one file tensor holds; along each axis of the box,
// neighbours are a constant number of elements apart in the file. This covers transposed linears, queries, keys and
// values in one tensor or in three, in any order, tensor-parallel shards, and padding rows that the file has in
// addition. Element bits are copied, never computed with, and only what a slice needs is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layout/slice.h"

namespace mtl {

struct TensorPiece {
  Slice box;                               // whole: of the canonical tensor
  std::size_t file = 0;                    // which file tensor: an index into a list of the caller
  std::int64_t file_offset = 0;            // elements before the box's first one in the file tensor
  std::vector<std::int64_t> file_strides;  // elements from one to the next along each axis of the box
};

/// A piece whose elements lie densely in the file tensor, from `file_offset`, its axes in `order`, slowest first: {1,
/// 0} of a matrix is its transpose. An empty order is the canonical one.
TensorPiece dense_piece(std::size_t file, const Slice& box, const std::vector<int>& order = {},
                        std::int64_t file_offset = 0);

/// True if the file tensor begins with the box's elements, in the same order.
bool is_same_order(const TensorPiece& piece);

/// The elements of a slice of a canonical tensor, from the contents of the file tensors that its pieces name. Throws
/// when the pieces do not hold all of them, or a file tensor has fewer elements than its piece says.
void gather_slice(std::span<const TensorPiece> pieces, const Slice& slice, std::size_t element_bytes,
                  std::span<const std::span<const std::byte>> files, std::span<std::byte> out);

/// The reverse: the elements of a piece's box into their places in the file tensor.
void scatter_piece(const TensorPiece& piece, std::size_t element_bytes, std::span<const std::byte> box,
                   std::span<std::byte> file);

}  // namespace mtl
