// LayerNorm: the kernels of kernels/cuda/norm_rows.h on rows of width C. Memory is read and written once:
//   forward   x and y                2 N C elements; with a sum: residual, branch, x and y, 4 N C
//   backward  x, dy, dx, maybe skip  3 or 4 N C elements; gradients of gamma and beta in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, const ResidualSum& sum, Tensor gamma,
                       Tensor beta, float eps) {
  const auto width = static_cast<int>(y.size(-1));
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_rows<S, T>(cache.x, sum, [&]<class X>(const X& x) {
      const NormForward<X, T> operands{.y = {y.data<T>(), width},
                                       .x = x,
                                       .mean = cache.mean.data<float>(),
                                       .rstd = cache.rstd.data<float>(),
                                       .gamma = gamma.data<T>(),
                                       .beta = beta.data<T>(),
                                       .rows = y.row_count(),
                                       .width = width,
                                       .eps = eps};
      norm_rows(stream, operands, {y, cache.x, gamma, beta, sum.residual, sum.branch, sum.bias});
    });
  });
}

void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const auto* partials = static_cast<const float*>(work.raw());
  int blocks = 0;
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    blocks = norm_rows_backward(stream,
                                dense_backward<true, S, T>(grads.dx, work, dy, cache.x, cache.mean, cache.rstd, gamma),
                                {grads.dx.tensor, grads.dx.skip, dy, cache.x, gamma});
  });
  if (partials != nullptr) sum_partials(stream, grads.dgamma, grads.dbeta, partials, blocks, 2 * width);
}

}  // namespace mtl::cuda
