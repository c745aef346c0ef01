// General matrix multiplication with the epilogues that a transformer needs.
//
//   C = op(A) op(B)            overwrite
//   C = C + op(A) op(B)        accumulate
//
// C (M, N), op(A) (M, K), op(B) (K, N). A transposed operand is stored with its axes swapped: A is stored as (K, M).
// Tensors with more axes are viewed as (rows, last axis).
//
// A and B have the same dtype: f32, bf16 or f16. C can have any of these three: the dtype of A and B, f32 for logits,
// or a gradient's dtype. Sums are fp32, including C + ... when accumulating. C is rounded when it is written.
//
// Epilogues are applied to the product in this order, only with overwrite. bias and aux have the dtype of C:
//   bias (N)                    C += bias, for every row
//   forward, with aux (M, N)    aux = C, then C = activation(aux)  forward of an MLP's first linear
//   backward, with aux (M, N)   C *= activation'(aux)              backward through it
// For a weight gradient C = dy^T x, where A is dy transposed, there is also:
//   dbias (M)                dbias = sum over rows of dy (obeys its own GradMode), in any of the three dtypes
// The bias is added in fp32. The activation is applied to aux as stored, that is, rounded. On cuda, gelu_tanh may be
// applied before aux is rounded. Backward may round the product to the dtype of C before multiplying it by the
// derivative.
//
// kernels/activation.h defines the activation functions. Scratch memory holds partial sums for dbias and the device's
// GEMM workspaces. It does not include compiled primitives or the internal buffers in oneDNN's fp32 GEMM. The same
// instruction set, thread count and shapes always produce the same bits. AVX-512 BF16 and AMX treat subnormal bf16
// numbers as zero. The operator counts 2 M N K FLOPs.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/activation.h"

namespace mtl {

struct Operand {
  Tensor tensor;
  bool transposed = false;
};

struct Epilogue {
  enum class Act { none, forward, backward };

  Tensor bias{};
  Act act = Act::none;
  Activation activation = Activation::gelu_tanh;
  Tensor aux{};  // written by forward, read by backward
  Grad dbias{};

  /// True if the epilogue changes C, that is, has a bias or an activation.
  bool changes_c() const { return bias.exists() || act != Act::none; }
};

inline Operand transposed(Tensor tensor) { return {tensor, true}; }

/// Throws Error if shapes or dtypes do not match, or if the epilogues cannot be combined.
void gemm(Stream& stream, Arena& scratch, Tensor c, Operand a, Operand b, GradMode mode = GradMode::overwrite,
          const Epilogue& epilogue = {});

}  // namespace mtl
