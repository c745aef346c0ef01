// RMSNorm: the kernels of kernels/cuda/norm_rows.h on rows of width C. Memory is read and written once:
//   forward   x and y                2 N C elements; with a sum: residual, branch, x and y, 4 N C
//   backward  x, dy, dx, maybe skip  3 or 4 N C elements; the gradient of gamma in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, const ResidualSum& sum, Tensor gamma,
                     float eps) {
  const auto width = static_cast<int>(y.size(-1));
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_rows<S, T>(cache.x, sum, [&]<class X>(const X& x) {
      const NormForward<X, T> operands{.y = {y.data<T>(), width},
                                       .x = x,
                                       .mean = nullptr,
                                       .rstd = cache.rstd.data<float>(),
                                       .gamma = gamma.data<T>(),
                                       .beta = nullptr,
                                       .rows = y.row_count(),
                                       .width = width,
                                       .eps = eps};
      norm_rows(stream, operands, {y, cache.x, gamma, sum.residual, sum.branch, sum.bias});
    });
  });
}

void rmsnorm_backward(Stream& stream, Tensor work, const StreamGrad& grad, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const auto* partials = static_cast<const float*>(work.raw());
  int blocks = 0;
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    blocks = norm_rows_backward(stream, dense_backward<false, S, T>(grad, work, dy, cache.x, {}, cache.rstd, gamma),
                                {grad.tensor, grad.skip, dy, cache.x, gamma});
  });
  if (partials != nullptr) sum_partials(stream, dgamma, partials, blocks, width);
}

}  // namespace mtl::cuda
