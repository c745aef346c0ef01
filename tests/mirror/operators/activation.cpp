#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation) {
  forward<cpu::gated_forward>(stream, out, pre, activation);
}
void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation) {
  forward<cpu::gated_backward>(stream, dpre, dout, pre, activation);
}

}  // namespace mtl::cuda
