// RMSNorm over the last axis.
//
//   y      = gamma * x_hat,  x_hat = x * rstd,  rstd = 1 / sqrt(mean(x^2) + eps)
//   dx     = skip + rstd * (g - x_hat * mean(g * x_hat)),  g = gamma * dy
//   dgamma = sum over rows of dy * x_hat                                  (obeys GradMode)
//
// There are N rows of width C. x and dx have the residual stream's dtype S. y, dy and gamma have the compute dtype T.
// dgamma has a separate dtype G (kernels/stream_types.h). rstd and sums are fp32, regardless of the stored dtypes. Sums
// over rows are computed in fixed blocks, so the result does not depend on the thread count.
//
// Zhang, Sennrich 2019, eq. 4.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/residual.h"

namespace mtl {

struct RmsNormCache {
  Tensor x;     // (N, C) the input
  Tensor rstd;  // (N)    f32
};

/// Reads cache.x, and writes y (N, C) and cache.rstd. y may alias cache.x if S is T and backward will not be called. If
/// `sum` is given, first writes the sum to cache.x. This gives the same bits as calling residual_forward(stream,
/// cache.x, sum) first, but does not read x back from memory. The branch has dtype T.
void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, Tensor gamma, float eps,
                     const ResidualSum& sum = {});

/// Reads x, dy and gamma once for both gradients. An absent gradient is not computed. dx (N, C) may alias its skip,
/// cache.x and, if S is T, dy.
void rmsnorm_backward(Stream& stream, Arena& scratch, StreamGrad dx, Grad dgamma, Tensor dy, const RmsNormCache& cache,
                      Tensor gamma);

}  // namespace mtl
