// A slice of the heads of a tensor. Attention and the operators that precede it read and write slices instead of
// tensors, because tensors have no strides.
#pragma once

#include "device/tensor.h"

namespace mtl {

/// Heads [first, first + count) of every group of a tensor (B, T, G, N, D).
struct HeadSlice {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 1;

  std::size_t bytes() const;
  /// Returns the shape (B, T, G, count), which has one element for each head of each position.
  Shape heads() const;
};
/// Throws unless the tensor has these heads and a compute dtype.
void check_slice(const char* what, const HeadSlice& slice);

}  // namespace mtl
