// LayerNorm over the last axis.
//
//   y      = gamma * x_hat + beta,  x_hat = (x - mean) * rstd,  rstd = 1 / sqrt(var + eps), var biased
//   dx     = rstd * (g - mean(g) - x_hat * mean(g * x_hat)),  g = gamma * dy        (dx += when accumulating)
//   dgamma = sum over rows of dy * x_hat,   dbeta = sum over rows of dy             (both obey GradMode)
//
// There are N rows of width C. x and dx have the dtype S of the residual stream; y, dy, gamma and beta have the compute
// dtype T; dgamma and dbeta have separate dtypes G (kernels/stream_types.h). Statistics and sums are fp32, regardless
// of the stored dtypes. Sums over rows are computed in fixed blocks, so the result does not depend on the number of
// threads. Ba, Kiros, Hinton 2016, eq. 3-4.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/residual.h"

namespace mtl {

struct LayerNormCache {
  Tensor x;     // (N, C) the input
  Tensor mean;  // (N) f32
  Tensor rstd;  // (N) f32
};

/// The results of backward; an absent gradient is not computed.
struct LayerNormGrads {
  Grad dx, dgamma, dbeta;
};

/// Writes y (N, C), cache.mean and cache.rstd; reads cache.x. If `sum` is given, first writes the sum to cache.x. The
/// result has the same bits as after residual_forward(stream, cache.x, sum), but x is not read back from memory. The
/// branch has dtype T.
void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps,
                       const ResidualSum& sum = {});

/// dx (N, C) may be dy itself if S is T. dx obeys its GradMode: when accumulating, the gradient of the norm is added to
/// the gradient of the skip connection.
void layernorm_backward(Stream& stream, Arena& scratch, Grad dx, Grad dgamma, Grad dbeta, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma);

}  // namespace mtl
