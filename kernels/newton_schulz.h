// What Newton-Schulz iterations (optim/newton_schulz.h) need besides gemm. All arithmetic is fp32, rounded once.
#pragma once

#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// One iteration's numbers: X becomes (a I + b A + c A^2) X with A = X X^T.
struct QuinticStep {
  float a, b, c;
};

/// out = in / max(sqrt(sum), 1e-7). `sum` (1) f64 is the sum of squares of `in`, which has as many elements as `out`.
/// f32, bf16 or f16; `out` may be `in`.
void divide_by_norm(Stream& stream, Tensor out, Tensor in, Tensor sum);
/// squared = a I + b A + c squared. `a` and `squared` (m, m) have the same dtype: f32, bf16 or f16.
void quintic_polynomial(Stream& stream, Tensor squared, Tensor a, const QuinticStep& step);

}  // namespace mtl
