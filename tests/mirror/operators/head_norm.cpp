#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  forward<cpu::head_norm_forward>(stream, y, rstd, x, gamma, eps);
}
void head_norm_backward(Stream& stream, Tensor work, const HeadSlice& dx, const Grad& dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma) {
  forward<cpu::head_norm_backward>(stream, cpu_part(work), dx, dgamma, dy, x, rstd, gamma);
}
std::size_t head_norm_backward_work(const Stream& stream, const HeadSlice& x) {
  return cpu::head_norm_backward_work(stream, x) + kMoreWork;
}

}  // namespace mtl::cuda
