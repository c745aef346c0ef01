#include "kernels/update_rules.h"

#include <cmath>

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {

void check_flat(const char* rule, const char* what, const Tensor& tensor, std::int64_t count) {
  const std::string name = cat(rule, " ", what);
  expect_computed(name.c_str(), tensor);
  expect_tensor(name.c_str(), tensor, tensor.dtype(), {count});
}

/// Checks the operands of a rule with `states` states, and counts what it reads and writes.
void check_range(Stream& stream, const char* rule, const UpdateRange& range, std::size_t states) {
  const std::int64_t count = range.grad.numel();
  check_flat(rule, "grad", range.grad, count);
  if (range.param.exists()) check_flat(rule, "param", range.param, count);
  if (range.copy.exists()) check_flat(rule, "copy", range.copy, count);
  require(range.states.size() == states, rule, ": has ", states, " states, got ", range.states.size());
  for (const Tensor& state : range.states) check_flat(rule, "state", state, count);
  require(!range.rounding || range.param.dtype() == DType::bf16, rule,
          ": stochastic rounding needs a bfloat16 param, got ", name_of(range.param.dtype()));
  std::size_t updated = range.param.bytes() + range.copy.bytes();
  for (const Tensor& state : range.states) updated += state.bytes();
  stream.count(0, double(range.grad.bytes() + 2 * updated));
}

}  // namespace

UpdateFactors adamw_factors(const StepInputs& step, const AdamWOptions& options) {
  const auto t = double(step.step);
  return {.rate = static_cast<float>(step.lr / (1 - std::pow(options.beta1, t))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
          .decay = static_cast<float>(step.lr * step.weight_decay)};
}

UpdateFactors sgd_factors(const StepInputs& step) {
  return {.rate = static_cast<float>(step.lr), .decay = static_cast<float>(step.weight_decay)};
}

void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state) {
  check_range(stream, "adamw", range, AdamWFactors::kStates);
  run<cpu::adamw_step, cuda::adamw_step>(stream, range, options, state);
}

void sgd_step(Stream& stream, const UpdateRange& range, double momentum, StepState* state) {
  check_range(stream, "sgd", range, SgdFactors::kStates);
  run<cpu::sgd_step, cuda::sgd_step>(stream, range, momentum, state);
}

void muon_momentum(Stream& stream, const UpdateRange& range, const MuonOptions& options, StepState* state) {
  check_range(stream, "muon", range, 1);
  require(!range.param.exists(), "muon: the momentum changes no param");
  stream.count(0, double(range.grad.bytes()));  // is written, too
  run<cpu::muon_momentum, cuda::muon_momentum>(stream, range, options, state);
}

void descent_step(Stream& stream, const UpdateRange& range, StepState* state) {
  check_range(stream, "descent", range, DescentFactors::kStates);
  run<cpu::descent_step, cuda::descent_step>(stream, range, state);
}

}  // namespace mtl
