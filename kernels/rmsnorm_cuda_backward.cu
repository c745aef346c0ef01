// RMSNorm backward: the kernel of kernels/cuda/norm_rows.h on rows of width C. Reads x, dy and maybe skip and writes dx
// once, 3 or 4 N C elements; the gradient of gamma in the same pass. Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void rmsnorm_backward(Stream& stream, Tensor work, const StreamGrad& grad, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const auto* partials = static_cast<const float*>(work.raw());
  int blocks = 0;
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    blocks = norm_rows_backward(stream, dense_backward<1, S, T>(grad, work, dy, cache.x, {}, cache.rstd, gamma),
                                {grad.tensor, grad.skip, dy, cache.x, gamma});
  });
  if (partials != nullptr) sum_partials(stream, {dgamma}, partials, blocks, width);
}

}  // namespace mtl::cuda
