// Applies the kernels in kernels/cuda/rmsnorm_rows.h to rows of width C. Memory is read and written once:
//   forward   x and y                          2 N C elements; with a sum: residual, branch, x and y, 4 N C
//   backward  x, dy, dx, maybe skip  3 or 4 N C elements; the gradient of gamma in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/rmsnorm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, const ResidualSum& sum, Tensor gamma,
                     float eps) {
  const auto width = static_cast<int>(y.size(-1));
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_rows<S, T>(cache.x, sum, [&]<class X>(const X& x) {
      const NormForward<false, X, DenseRows<T>, T> operands{.y = {y.data<T>(), width},
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

void rmsnorm_backward(Stream& stream, Tensor work, const StreamGrad& dx, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const std::int64_t rows = dy.row_count();
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    const RmsNormBackward<DenseRows<const S>, DenseRows<S>, DenseRows<const T>, T> operands{
        .dx = {dx.wanted() ? dx.tensor.data<S>() : nullptr, width},
        .skip = {dx.skip.exists() ? dx.skip.data<S>() : nullptr, width},
        .wants_dx = dx.wanted(),
        .has_skip = dx.skip.exists(),
        .partials = dgamma.wanted() ? static_cast<float*>(work.raw()) : nullptr,
        .dy = {dy.data<T>(), width},
        .x = {cache.x.data<S>(), width},
        .rstd = cache.rstd.data<float>(),
        .gamma = gamma.data<T>(),
        .rows = rows,
        .width = width};
    with_pack_size(width, {dx.tensor, dx.skip, dy, cache.x, gamma},
                   [&]<int n>(std::integral_constant<int, n>) { rmsnorm_rows_backward<n>(stream, operands); });
  });
  if (dgamma.wanted()) rmsnorm_add_dgamma(stream, dgamma, work, rows, width);
}

}  // namespace mtl::cuda
