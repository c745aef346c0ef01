// LayerNorm over the last axis.
//
//   y      = gamma * x_hat + beta,  x_hat = (x - mean) * rstd,  rstd = 1 / sqrt(var + eps), var biased
//   dx     = skip + rstd * (g - mean(g) - x_hat * mean(g * x_hat)),  g = gamma * dy
//   dgamma = sum over rows of dy * x_hat,   dbeta = sum over rows of dy             (both obey GradMode)
//
// There are N rows of width C. x and dx have the residual stream's dtype S. y, dy, gamma and beta have the compute
// dtype T. dgamma and dbeta have separate dtypes G (kernels/stream_types.h). Statistics and sums are fp32, regardless
// of the stored dtypes. Sums over rows are computed in blocks that do not depend on the thread count, but on a GPU on
// how many blocks it runs at a time.
// Ba, Kiros, Hinton 2016, eq. 3-4.
#pragma once

#include <array>

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

/// Backward's results. An absent gradient is not computed.
struct LayerNormGrads {
  StreamGrad dx;
  Grad dgamma, dbeta;

  /// The sums over rows, in the order of the partial sums' arrays.
  std::array<Grad, 3> sums() const { return {dgamma, dbeta, dx.dbias}; }
  /// Returns how many arrays of partial sums there are.
  int arrays() const { return dx.dbias.wanted() ? 3 : 2; }
};

/// Reads cache.x, and writes y (N, C), cache.mean and cache.rstd. If `sum` is given, first writes the sum to cache.x.
/// This gives the same bits as calling residual_forward(stream, cache.x, sum) first, but does not read x back from
/// memory. The branch has dtype T.
void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps,
                       const ResidualSum& sum = {});

/// dx (N, C) may alias its skip, cache.x and, if S is T, dy.
void layernorm_backward(Stream& stream, Arena& scratch, StreamGrad dx, Grad dgamma, Grad dbeta, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma);

}  // namespace mtl
