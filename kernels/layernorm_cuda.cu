// LayerNorm and, without means and beta, RMSNorm: the kernel of kernels/cuda/norm_rows.h on rows of width C. Reads x
// and writes y once, 2 N C elements; with a sum: residual, branch, x and y, 4 N C. Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, const ResidualSum& sum, Tensor gamma,
                       Tensor beta, float eps) {
  const auto width = static_cast<int>(y.size(-1));
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_rows<S, T>(cache.x, sum, [&]<class X>(const X& x) {
      const auto run = [&]<bool has_mean>(std::bool_constant<has_mean>) {
        const NormForward<has_mean, Rows<T>, X, T> operands{.y = {y.data<T>(), width},
                                                            .x = x,
                                                            .mean = has_mean ? cache.mean.data<float>() : nullptr,
                                                            .rstd = cache.rstd.data<float>(),
                                                            .gamma = gamma.data<T>(),
                                                            .beta = has_mean ? beta.data<T>() : nullptr,
                                                            .rows = y.row_count(),
                                                            .width = width,
                                                            .eps = eps};
        norm_rows(stream, operands, {y, cache.x, gamma, beta, sum.residual, sum.branch, sum.bias});
      };
      cache.mean.exists() ? run(std::true_type()) : run(std::false_type());
    });
  });
}

}  // namespace mtl::cuda
