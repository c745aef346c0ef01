// A slice of a tensor's heads. Attention and the operators before it read and write slices instead of tensors,
// since tensors have no strides.
#pragma once

#include "device/tensor.h"

namespace mtl {

/// Heads [first, first + count) of every group of a tensor (B, T, G, N, D).
struct HeadSlice {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 1;

  std::size_t bytes() const;
  /// Returns (B, T, G, count): one element for each head of each position.
  Shape heads() const;
};
/// Throws unless the tensor has these heads and a compute dtype.
void check_slice(const char* what, const HeadSlice& slice);

}  // namespace mtl
