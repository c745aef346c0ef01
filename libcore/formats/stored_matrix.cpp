#include "formats/stored_matrix.h"

namespace mtl {

namespace {

using Sizes = std::vector<std::int64_t>;

/// Appends the pieces for a box of rows, given by the first index and the size along each factor. Where two factors
/// belong to one canonical axis, a piece takes a single index of the factor with the larger step.
void add_box(const StoredMatrix& matrix, Sizes first, Sizes size, TensorPiece piece, const Sizes& strides,
             std::int64_t offset, std::vector<TensorPiece>& pieces) {
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 1 || matrix.factors[i].step == 1) continue;
    const std::int64_t count = size[i];
    size[i] = 1;
    for (std::int64_t index = 0; index < count; ++index, ++first[i])
      add_box(matrix, first, size, piece, strides, offset + index * strides[i], pieces);
    return;
  }
  for (std::size_t i = 0; i < size.size(); ++i) {
    const RowFactor& factor = matrix.factors[i];
    piece.box.offset[factor.axis] += first[i] * factor.step;
    if (factor.step != 1) continue;
    piece.box.size[factor.axis] = size[i];
    piece.file_strides[factor.axis] = strides[i];
  }
  piece.box.end = whole_slice(piece.box.size).count();
  piece.file_offset = offset;
  pieces.push_back(std::move(piece));
}

}  // namespace

std::int64_t StoredMatrix::rows() const {
  std::int64_t rows = 1;
  for (const RowFactor& factor : factors) rows *= factor.size;
  return rows;
}

std::vector<std::int64_t> StoredMatrix::shape() const {
  return column_axis < 0 ? std::vector{rows()} : std::vector{rows(), columns};
}

StoredMatrix merged_rows(const Slice& box, bool has_columns, std::vector<int> row_axes) {
  StoredMatrix out{.origin = box.offset, .factors = {}};
  const int axes = static_cast<int>(std::ssize(box.size)) - (has_columns ? 1 : 0);
  for (int axis = 0; row_axes.size() < std::size_t(axes); ++axis) row_axes.push_back(axis);
  for (const int axis : row_axes) out.factors.push_back({box.size[axis], axis});
  if (has_columns) out.column_axis = axes, out.columns = box.size.back();
  return out;
}

void add_rectangle(const StoredMatrix& matrix, const Rectangle& rectangle, std::size_t file, std::int64_t offset,
                   const MatrixStrides& strides, std::vector<TensorPiece>& pieces) {
  if (rectangle.column_begin >= rectangle.column_end) return;
  Sizes sizes, factor_strides(matrix.factors.size(), strides.rows);
  for (const RowFactor& factor : matrix.factors) sizes.push_back(factor.size);
  for (std::size_t i = sizes.size(); i-- > 1;) factor_strides[i - 1] = factor_strides[i] * sizes[i];
  TensorPiece columns;
  columns.file = file;
  columns.box.offset = matrix.origin;
  columns.box.size.assign(matrix.origin.size(), 1);
  columns.file_strides.assign(matrix.origin.size(), strides.columns);
  if (matrix.column_axis >= 0) {
    columns.box.offset[matrix.column_axis] += rectangle.column_begin;
    columns.box.size[matrix.column_axis] = rectangle.column_end - rectangle.column_begin;
  }
  for_each_box(sizes, rectangle.row_begin, rectangle.row_end, [&](const Sizes& first, const Sizes& size) {
    std::int64_t row = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) row = row * sizes[i] + first[i];
    add_box(matrix, first, size, columns, factor_strides, offset + (row - rectangle.row_begin) * strides.rows, pieces);
  });
}

void add_range(const StoredMatrix& matrix, const Rectangle& rectangle, std::int64_t begin, std::int64_t end,
               std::size_t file, std::int64_t offset, std::vector<TensorPiece>& pieces) {
  const std::int64_t columns = rectangle.column_end - rectangle.column_begin;
  const Sizes sizes = {rectangle.row_end - rectangle.row_begin, columns};
  for_each_box(sizes, begin, end, [&](const Sizes& first, const Sizes& size) {
    const Rectangle part{.row_begin = rectangle.row_begin + first[0],
                         .row_end = rectangle.row_begin + first[0] + size[0],
                         .column_begin = rectangle.column_begin + first[1],
                         .column_end = rectangle.column_begin + first[1] + size[1]};
    add_rectangle(matrix, part, file, offset + first[0] * columns + first[1] - begin, {columns}, pieces);
  });
}

}  // namespace mtl
