// Small operators over flat ranges, and the sum of squares for the gradient norm.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

void fill_zero(Stream& stream, Tensor out);
void copy(Stream& stream, Tensor out, Tensor in);
/// out += in; both f32
void add(Stream& stream, Tensor out, Tensor in);
/// out *= factor, in f32
void scale(Stream& stream, Tensor out, float factor);

/// out (1) f64 = or += sum of in^2, with `in` of f32, bf16 or f16. Blocks of fixed size are summed in fp64 in a fixed
/// order, so the result does not depend on the number of threads.
void sum_of_squares(Stream& stream, Arena& scratch, Tensor out, Tensor in, GradMode mode);

/// found (1) i32 = 1 if an element of `in` (f32, bf16 or f16) is infinite or NaN, else 0.
void find_nonfinite(Stream& stream, Tensor found, Tensor in);

}  // namespace mtl
