#include "kernels/dispatch.h"

namespace mtl {

void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm) {
  expect_tensor("finish_grad_norm: sum", sum, DType::f64, {1});
  run<cpu::finish_grad_norm, cuda::finish_grad_norm>(stream, state, sum, max_norm);
}

}  // namespace mtl
