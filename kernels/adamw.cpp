#include "kernels/adamw.h"

#include <cmath>

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
void check_flat(const char* what, const Tensor& tensor, std::int64_t count) {
  expect_computed(what, tensor);
  expect_tensor(what, tensor, tensor.dtype(), {count});
}
}  // namespace

UpdateFactors adamw_factors(const StepInputs& step, const AdamWOptions& options) {
  const auto t = double(step.step);
  return {.rate = static_cast<float>(step.lr / (1 - std::pow(options.beta1, t))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
          .decay = static_cast<float>(step.lr * step.weight_decay)};
}

void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state) {
  const std::int64_t count = range.param.numel();
  check_flat("adamw param", range.param, count);
  check_flat("adamw grad", range.grad, count);
  require(range.states.size() == 2, "adamw: has two states, got ", range.states.size());
  for (const Tensor& moments : range.states) check_flat("adamw moments", moments, count);
  if (range.copy.exists()) check_flat("adamw copy", range.copy, count);
  require(!range.rounding || range.param.dtype() == DType::bf16,
          "adamw: stochastic rounding needs a bfloat16 param, got ", name_of(range.param.dtype()));
  std::size_t updated = range.param.bytes() + range.copy.bytes();
  for (const Tensor& moments : range.states) updated += moments.bytes();
  stream.count(0, double(range.grad.bytes() + 2 * updated));
  run<cpu::adamw_step, cuda::adamw_step>(stream, range, options, state);
}

}  // namespace mtl
