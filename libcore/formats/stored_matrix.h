// A canonical tensor as other programs store it: as a matrix whose rows merge several canonical axes, in an order of
// their own, or as a vector of such rows. Finds the pieces of the canonical tensor (tensor_map.h) for any rectangle of
// the matrix, and for any range of its elements.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tensor_map.h"

namespace mtl {

/// A factor of the row number: one index more moves `step` along a canonical axis.
struct RowFactor {
  std::int64_t size;
  int axis;
  std::int64_t step = 1;
};

/// Rows and columns [begin, end).
struct Rectangle {
  std::int64_t row_begin, row_end, column_begin, column_end;

  std::int64_t count() const { return (row_end - row_begin) * (column_end - column_begin); }
};

struct StoredMatrix {
  std::vector<std::int64_t> origin;  // index of the first element in the canonical tensor
  std::vector<RowFactor> factors;    // of the row number, slowest first
  int column_axis = -1;              // -1: a vector, with one column
  std::int64_t columns = 1;

  std::int64_t rows() const;
  /// Returns (rows, columns) or, for a vector, (rows).
  std::vector<std::int64_t> shape() const;
  Rectangle whole() const { return {0, rows(), 0, columns}; }
};

/// Returns how a box of a canonical tensor is stored whose last axis are the columns if `has_columns`, and whose other
/// axes are merged into the rows in the order `row_axes`, slowest first. Empty `row_axes`: in canonical order.
StoredMatrix merged_rows(const Slice& box, bool has_columns, std::vector<int> row_axes = {});

/// Distances in a file tensor, in elements.
struct MatrixStrides {
  std::int64_t rows, columns = 1;
};

/// Appends the pieces for a rectangle of the matrix, whose elements are in file tensor `file`, the first at element
/// `offset`.
void add_rectangle(const StoredMatrix& matrix, const Rectangle& rectangle, std::size_t file, std::int64_t offset,
                   const MatrixStrides& strides, std::vector<TensorPiece>& pieces);

/// Appends the pieces for the row-major element range [begin, end) within a rectangle of the matrix. The range's
/// elements are dense in file tensor `file`, starting at element `offset`.
void add_range(const StoredMatrix& matrix, const Rectangle& rectangle, std::int64_t begin, std::int64_t end,
               std::size_t file, std::int64_t offset, std::vector<TensorPiece>& pieces);

}  // namespace mtl
