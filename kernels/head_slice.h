// A slice of a tensor's heads. Tensors have no strides, so attention and the operators before it read and write slices.
#pragma once

#include "device/tensor.h"

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

}  // namespace mtl
