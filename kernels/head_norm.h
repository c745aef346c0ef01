// RMSNorm over each head's D elements, before attention (QK-norm).
//
//   y      = gamma * x_hat,  x_hat = x * rstd,  rstd = 1 / sqrt(mean over D of x^2 + eps)
//   dx     = rstd * (g - x_hat * mean(g * x_hat)),  g = gamma * dy
//   dgamma = sum over all heads and positions of dy * x_hat               (obeys GradMode)
//
// x, y, dx and dy are slices of (B, T, G, N, D) tensors. B, T, G, D and `count` must be the same for all four slices.
// The tensors, N and `first` may differ. All heads share gamma (D). All tensors have the compute dtype T, except rstd,
// which is f32, and dgamma, which has a separate dtype G (kernels/stream_types.h). Sums are fp32 and computed in
// blocks that do not depend on the thread count, but on a GPU on how many blocks it runs at a time. Zhang, Sennrich
// 2019, eq. 4; Henry et al. 2020.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "kernels/head_slice.h"

namespace mtl {

/// Writes y and, if present, rstd (B, T, G, count). y may alias x if backward will not be called.
void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps);

/// Overwrites dx, which may alias dy. The caller must pass forward's x and rstd, so y must not have overwritten x.
/// dgamma may be absent.
void head_norm_backward(Stream& stream, Arena& scratch, const HeadSlice& dx, Grad dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma);

}  // namespace mtl
