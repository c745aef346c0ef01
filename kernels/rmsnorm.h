// RMSNorm over the last axis.
//
//   y      = gamma * x_hat,  x_hat = x * rstd,  rstd = 1 / sqrt(mean(x^2) + eps)
//   dx     = rstd * (g - x_hat * mean(g * x_hat)),  g = gamma * dy        (dx += when accumulating)
//   dgamma = sum over rows of dy * x_hat                                  (obeys GradMode)
//
// N rows of width C. x and dx have the dtype S of the residual stream; y, dy and gamma the compute dtype T; dgamma a
// dtype G of its own (kernels/stream_types.h). rstd and sums are fp32 whatever is stored; sums over rows are taken in
// fixed blocks, so the result does not depend on the number of threads. Zhang, Sennrich 2019, eq. 4.
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

/// Writes y (N, C) and cache.rstd; reads cache.x. y may be cache.x itself if S is T and no backward follows. With
/// `sum`, cache.x is written first: the same bits as after residual_forward(stream, cache.x, sum), but x is not read
/// back from memory. The branch has the dtype T.
void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, Tensor gamma, float eps,
                     const ResidualSum& sum = {});

/// Reads x, dy and gamma once for both gradients; an absent gradient is not computed. dx (N, C) may be dy
/// itself if S is T. Accumulating adds to the skip connection's gradient in dx.
void rmsnorm_backward(Stream& stream, Arena& scratch, Grad dx, Grad dgamma, Tensor dy, const RmsNormCache& cache,
                      Tensor gamma);

}  // namespace mtl
