// General matrix product with the epilogues that a transformer needs.
//
//   C = op(A) op(B)            overwrite
//   C = C + op(A) op(B)        accumulate
//
// C (M, N), op(A) (M, K), op(B) (K, N); op transposes where the operand says so, so a transposed A is stored (K, M).
// Tensors with more axes count as (rows, last axis). fp32, sums in fp32.
//
// Epilogues, applied to the product in this order (only with overwrite):
//   bias (N)            C += bias, for every row
//   gelu_aux (M, N)     gelu_aux = C, then C = gelu(C)          forward of an MLP's first linear
//   dgelu_aux (M, N)    C *= gelu'(dgelu_aux)                   backward through it
// and, for a weight gradient C = dy^T x, where A is dy transposed:
//   dbias (M)           dbias = sum over rows of dy (obeys its own GradMode)
//
//   gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))    Hendrycks, Gimpel 2016, the tanh form
//
// Counts 2 M N K FLOPs.
#pragma once

#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

struct Operand {
  Tensor tensor;
  bool transposed = false;
  const float* scale = nullptr;  // a factor on the device, for 8-bit floats; none of today's dtypes takes one
};

struct Epilogue {
  Tensor bias{};
  Tensor gelu_aux{};
  Tensor dgelu_aux{};
  Grad dbias{};
};

inline Operand transposed(Tensor tensor) { return {tensor, true}; }

/// Throws mtl::Error when shapes, dtypes or the combination of epilogues disagree.
void gemm(Stream& stream, Tensor c, Operand a, Operand b, GradMode mode = GradMode::overwrite,
          const Epilogue& epilogue = {});

}  // namespace mtl
