// LayerNorm backward: the kernel of kernels/cuda/norm_rows.h on rows of width C. Reads x, dy and maybe skip and writes
// dx once, 3 or 4 N C elements; gradients of gamma, beta and maybe of a bias in the same pass. Predicted to be
// memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const auto* partials = static_cast<const float*>(work.raw());
  int blocks = 0;
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    const auto sum_rows = [&]<int arrays>(std::integral_constant<int, arrays>) {
      const auto operands = dense_backward<arrays, S, T>(grads.dx, work, dy, cache.x, cache.mean, cache.rstd, gamma);
      blocks = norm_rows_backward(stream, operands, {grads.dx.tensor, grads.dx.skip, dy, cache.x, gamma});
    };
    if constexpr (sizeof(S) == 2) {
      if (grads.dx.dbias.wanted()) return sum_rows(std::integral_constant<int, 3>());
    }
    sum_rows(std::integral_constant<int, 2>());
  });
  if (partials != nullptr) sum_partials(stream, grads.sums(), partials, blocks, grads.arrays() * width);
}

}  // namespace mtl::cuda
