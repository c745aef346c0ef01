#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm) {
  forward<cpu::finish_grad_norm>(stream, state, sum, max_norm);
}

}  // namespace mtl::cuda
