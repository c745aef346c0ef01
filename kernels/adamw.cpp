#include "kernels/adamw.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
void check_flat(const char* what, const Tensor& tensor, std::int64_t count) {
  expect_computed(what, tensor);
  expect_tensor(what, tensor, tensor.dtype(), {count});
}
}  // namespace

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state) {
  const std::int64_t count = range.param.numel();
  check_flat("adamw param", range.param, count);
  check_flat("adamw grad", range.grad, count);
  check_flat("adamw exp_avg", range.exp_avg, count);
  check_flat("adamw exp_avg_sq", range.exp_avg_sq, count);
  if (range.copy.exists()) check_flat("adamw copy", range.copy, count);
  require(!range.rounding || range.param.dtype() == DType::bf16,
          "adamw: stochastic rounding needs a bfloat16 param, got ", name_of(range.param.dtype()));
  const std::size_t updated =
      range.param.bytes() + range.exp_avg.bytes() + range.exp_avg_sq.bytes() + range.copy.bytes();
  stream.count(0, double(range.grad.bytes() + 2 * updated));
  run<cpu::adamw_step, cuda::adamw_step>(stream, range, options, state);
}

}  // namespace mtl
