// Small operators over flat ranges, and the sum of squares for the gradient norm.
#pragma once

#include <vector>

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Sets all bytes to 0, for any dtype.
void fill_zero(Stream& stream, Tensor out);
/// out = in. Any dtype, but the same for both, and the same shape. The tensors must not overlap.
void copy(Stream& stream, Tensor out, Tensor in);
/// out += in. Both have the same shape and the same dtype: f32, bf16 or f16. Sums are fp32, and rounded once.
void add(Stream& stream, Tensor out, Tensor in);

/// out (1) f64 = sum of x^2 over all elements of the tensors `in`, which have the same dtype: f32, bf16 or f16. The
/// sums of the tensors are added in their order. A tensor is summed in fp64, in blocks of fixed size and in a fixed
/// order, so the result does not depend on the thread count.
void sum_of_squares(Stream& stream, Arena& scratch, Tensor out, const std::vector<Tensor>& in);

/// Sets found (1) i32 to 1 if `in` (f32, bf16 or f16) contains an infinity or a NaN, otherwise to 0.
void find_nonfinite(Stream& stream, Tensor found, Tensor in);

/// Adds the number of elements of `in` (f32, bf16 or f16) that are 0 or -0 to count (1) i64.
void count_zeros(Stream& stream, Tensor count, Tensor in);

}  // namespace mtl
