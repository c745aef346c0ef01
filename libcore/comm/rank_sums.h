// The arithmetic of a reduction: out = x[0] + x[1] + ... + x[n-1] element by element, added in this order, which is
// rank order, so that every member gets the same bits. bf16 and f16 are widened to fp32, and the sum is rounded once,
// to nearest even.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Throws unless the dtype is f32, bf16, f16 or f64.
void check_summable(const Tensor& data);

/// Throws unless `whole` has the dtype of `part` and `size` times as many elements. `group` is the group's name, for
/// the message.
void check_parts(const std::string& group, const Tensor& whole, const Tensor& part, int size);

/// Writes the sum of `inputs`, an array of `bytes` bytes per rank, to `out`, which may be one of the inputs.
/// check_summable() must accept `dtype`.
void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes);

}  // namespace mtl
