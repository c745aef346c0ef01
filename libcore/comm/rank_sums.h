// Reduction arithmetic: out = x[0] + x[1] + ... + x[n-1], element-wise, where x[r] is rank r's input. Always adds in
// rank order, so that every member gets the same bits. bf16 and f16 elements are widened to fp32, and each sum is
// rounded once, to nearest even.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Throws unless `data` is f32, bf16, f16 or f64.
void check_summable(const Tensor& data);

/// Writes the element-wise sum of `inputs` to `out`. `inputs` has one array of `bytes` bytes per rank, and `out` can be
/// one of these arrays. check_summable() must accept `dtype`.
void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes);

}  // namespace mtl
