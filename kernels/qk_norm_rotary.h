// RMSNorm over each head of q and k (kernels/head_norm.h), then rotary position embedding (kernels/rotary.h), which
// CUDA computes in one pass over memory:
//
//   forward    y = rotate(norm(x))
//   backward   dx = norm's gradient of the gradient that is rotated back; dgamma = sum of its products with x_hat
//
// x, y and the gradient are (B, T, G, R + 2, D) tensors: each group has R query heads, one key and one value
// (unpack_qkv() in kernels/attention.h). Values are neither read nor written. Rounding is that of the operators one
// after the other: what is between norm and rotation is rounded to the compute dtype.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "kernels/head_slice.h"

namespace mtl {

struct QkNorm {
  Tensor q_gamma, k_gamma;   // (D)
  Tensor q_rstd, k_rstd;     // (B, T, G, R) and (B, T, G, 1) f32
  Tensor angles;             // (B T, 2, pairs) from rotary_angles()
  bool interleaved = false;  // the pairs; see RotaryFrequencies
};

/// Writes q and k of y, and the norm's rstds. y must not be x.
void qk_norm_rotary_forward(Stream& stream, Tensor y, Tensor x, const QkNorm& norm, float eps);

/// Takes the gradient with respect to y, and replaces it in place by the gradient with respect to x. The rstds are
/// forward's. The gradients of the gammas may be absent.
void qk_norm_rotary_backward(Stream& stream, Arena& scratch, Tensor grad, Grad dq_gamma, Grad dk_gamma, Tensor x,
                             const QkNorm& norm);

}  // namespace mtl
