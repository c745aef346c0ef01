#include "kernels/adamw.h"

#include "kernels/dispatch.h"

namespace mtl {

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, const StepState* state) {
  const Shape shape{range.param.numel()};
  expect_tensor("adamw param", range.param, DType::f32, shape);
  expect_tensor("adamw grad", range.grad, DType::f32, shape);
  expect_tensor("adamw exp_avg", range.exp_avg, DType::f32, shape);
  expect_tensor("adamw exp_avg_sq", range.exp_avg_sq, DType::f32, shape);
  stream.count(0, 7 * static_cast<double>(range.param.bytes()));
  run<cpu::adamw_step, cuda::adamw_step>(stream, range, options, state);
}

}  // namespace mtl
