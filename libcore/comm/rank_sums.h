// The arithmetic of a reduction: out = x[0] + x[1] + ... + x[n-1] element by element, added in this order, which is
// rank order, so every member gets the same bits. bf16 and f16 are widened to fp32, and the sum is rounded once, to
// nearest even.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Throws unless the dtype is f32, bf16, f16 or f64.
void check_summable(const Tensor& data);

/// Throws unless `whole` consists of `size` parts like `part`. The group's name is for the message.
void check_parts(const std::string& group, const Tensor& whole, const Tensor& part, int size);

/// `inputs`: one address per rank, each of `bytes` bytes. check_summable() must accept `dtype`. out may be one of them.
void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes);

}  // namespace mtl
