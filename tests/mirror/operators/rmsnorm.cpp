#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, const ResidualSum& sum, Tensor gamma,
                     float eps) {
  forward<cpu::rmsnorm_forward>(stream, y, cache, sum, gamma, eps);
}
void rmsnorm_backward(Stream& stream, Tensor work, const Grad& dx, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  forward<cpu::rmsnorm_backward>(stream, cpu_part(work), dx, dgamma, dy, cache, gamma);
}
std::size_t rmsnorm_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::rmsnorm_backward_work(stream, rows, width) + kMoreWork;
}

}  // namespace mtl::cuda
