#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, const ResidualSum& sum, Tensor gamma,
                       Tensor beta, float eps) {
  forward<cpu::layernorm_forward>(stream, y, cache, sum, gamma, beta, eps);
}
void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  forward<cpu::layernorm_backward>(stream, cpu_part(work), grads, dy, cache, gamma);
}
std::size_t layernorm_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::layernorm_backward_work(stream, rows, width) + kMoreWork;
}

}  // namespace mtl::cuda
