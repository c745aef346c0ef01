// Small operators over flat ranges, and the sum of squares for the gradient norm.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Sets all bytes to 0, for any dtype.
void fill_zero(Stream& stream, Tensor out);
/// out = in. Any dtype, but the same for both, and the same shape. The tensors must not overlap.
void copy(Stream& stream, Tensor out, Tensor in);

/// out (1) f64 = sum of in^2, or += if `mode` is accumulate. `in` is f32, bf16 or f16. We sum fixed-size blocks in fp64
/// and in a fixed order, so the result does not depend on the thread count.
void sum_of_squares(Stream& stream, Arena& scratch, Tensor out, Tensor in, GradMode mode);

/// Sets found (1) i32 to 1 if `in` (f32, bf16 or f16) contains an infinity or a NaN, otherwise to 0.
void find_nonfinite(Stream& stream, Tensor found, Tensor in);

}  // namespace mtl
