// A slice of a tensor's heads. Tensors have no strides, so attention and the operators before it read and write slices.
#pragma once

#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/row_map.h"

namespace mtl {

/// Heads [first, first + count) in every group of a (B, T, G, N, D) tensor.
struct HeadSlice {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 1;

  std::size_t bytes() const;
  /// Returns the shape (B, T, G, count), which has one element per head and position.
  Shape heads() const;
};
/// Throws unless the tensor has these heads and a compute dtype.
void check_slice(const char* what, const HeadSlice& slice);

/// Which positions copy_heads() reads and writes, and whether it adds.
struct HeadCopy {
  SequencePart to{}, from{};  // at most one of the two is a part
  GradMode mode = GradMode::overwrite;
};

/// to = from, or to += from. Both have the same B, G, number of heads and D, in any dtypes that operators compute with;
/// sums are fp32, and rounded once. T is the same, too, unless how.to or how.from is a part: then that slice has whole
/// sequences, of which its positions in the part are read or written, and the other has only these.
void copy_heads(Stream& stream, const HeadSlice& to, const HeadSlice& from, const HeadCopy& how = {});

}  // namespace mtl
