// The gradient norm of an optimizer step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "device/profile.h"
#include "tests/optim/rank_params.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Step {
  double grad_norm;
  std::int64_t buckets, sums;  // operators that sum squares
};

Step step_with(std::int64_t bucket_elements) {
  const ProcessGroups groups;
  RankParams own(layout_of({}, 0), tiny_gpt(), kPrecisionFp32, {.bucket_elements = bucket_elements});
  Optimizer optimizer(own.store, {}, own.stream, groups);
  optimizer.begin_step();
  own.chunk.params([&](Param& param, const ParamSpec&) {
    param.take_grad();
    const Tensor grad = own.store.grad(param.index);
    for (std::int64_t i = 0; i < grad.numel(); ++i)
      grad.data<float>()[i] = std::sin(static_cast<float>(i + 31 * param.index));
  });
  Profile profile(Device::cpu);
  own.stream.set_profile(&profile);
  Arena scratch(Device::cpu, "scratch", 1 << 16);
  StepState state;
  state.step = 1;
  optimizer.step(scratch, &state);
  const auto is_sum = [](const ProfileEntry& entry) { return entry.name == "sum_of_squares"; };
  return {state.grad_norm, std::ssize(own.store.buckets()), std::ranges::count_if(profile.entries(), is_sum)};
}

}  // namespace

TEST_CASE("gradient norm: one operator sums all parameters, and bucket sizes do not change a bit of it") {
  const Step small = step_with(600), large = step_with(1 << 20);
  REQUIRE(small.buckets > large.buckets);
  CHECK(small.sums == 1);
  CHECK(large.sums == 1);
  CHECK(small.grad_norm > 0);
  CHECK(small.grad_norm == large.grad_norm);
}
