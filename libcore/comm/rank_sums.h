// The arithmetic of a reduction: out = x[0] + x[1] + ... + x[n-1] element by element, added in this order. The order is
// the ranks', so every member that adds gets the same bits.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// `inputs`: one address per rank, each with `bytes` bytes of `dtype` (f32 or f64). out may be one of them.
void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes);

}  // namespace mtl
