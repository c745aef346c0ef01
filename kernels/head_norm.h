// RMSNorm over the D elements of each head, before attention (QK-norm).
//
//   y      = gamma * x_hat,  x_hat = x * rstd,  rstd = 1 / sqrt(mean over D of x^2 + eps)
//   dx     = rstd * (g - x_hat * mean(g * x_hat)),  g = gamma * dy
//   dgamma = sum over all heads of all positions of dy * x_hat            (obeys GradMode)
//
// x, y, dx and dy are slices of tensors (B, T, G, N, D) with the same B, T, G, D and `count`; the tensors, N and
// `first` may differ. gamma (D) is shared by all heads. All tensors have the compute dtype T, except rstd, which is
// f32, and dgamma, which has a separate dtype G (kernels/stream_types.h). Sums are fp32 and are computed in fixed
// blocks, so the result does not depend on the number of threads. Zhang, Sennrich 2019, eq. 4; Henry et al. 2020.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "kernels/head_slice.h"

namespace mtl {

/// Writes y and, if present, rstd (B, T, G, count). y may be x itself if backward will not be called.
void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps);

/// Overwrites dx, which may be dy itself. x and rstd must be those of forward, so y must not have overwritten x. dgamma
/// may be absent.
void head_norm_backward(Stream& stream, Arena& scratch, const HeadSlice& dx, Grad dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma);

}  // namespace mtl
