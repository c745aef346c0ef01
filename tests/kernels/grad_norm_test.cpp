// Gradient norm: the norm, the clip scale and a step's report, computed from the sum of squares.
#include "kernels/grad_norm.h"

#include <cstring>
#include <limits>

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

StepState state_after(double sum, double loss_scale, double max_norm, StepInputs inputs) {
  Stream stream(kDevice);
  Owned on_device(DType::f64, {1}), state(DType::u8, {sizeof(StepState)});
  on_device.host<double>()[0] = sum;
  inputs.loss_scale = loss_scale;
  const StepState before{
      inputs, {.loss_sums = {7, 8}, .clip_scale = 9, .found_inf = 9, .nonzero_updates = 9, .lost_updates = 9}};
  std::memcpy(state.host<std::uint8_t>(), &before, sizeof before);
  finish_grad_norm(stream, static_cast<StepState*>(state.tensor().raw()), on_device, max_norm);
  StepState after;
  std::memcpy(&after, state.host<std::uint8_t>(), sizeof after);
  return after;
}

StepReport report_of(double sum, double loss_scale, double max_norm, StepInputs inputs = {}) {
  return state_after(sum, loss_scale, max_norm, inputs);
}

}  // namespace

TEST_CASE("grad_norm: divides the norm by the loss scale, clips a norm above the limit, and resets the counts") {
  const StepReport clipped = report_of(36, 2, 1.5);
  CHECK(clipped.grad_norm == 3);
  CHECK(clipped.clip_scale == doctest::Approx(1.5 / (3 + 1e-6)).epsilon(1e-15));
  CHECK(clipped.found_inf == 0);
  CHECK(clipped.loss_sums == std::array{7.0, 8.0});
  CHECK(clipped.nonzero_updates + clipped.lost_updates + clipped.lost_copies == 0);
  CHECK(report_of(36, 2, 3.5).clip_scale == 1);
  CHECK(report_of(36, 2, 0).clip_scale == 1);
  CHECK(report_of(0, 2, 1).clip_scale == 1);
  CHECK(report_of(0, 2, 1).grad_norm == 0);
}

TEST_CASE("grad_norm: a non-finite norm is found") {
  for (double sum : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(report_of(sum, 1, 1).found_inf == 1);
    CHECK(report_of(sum, 1, 0).found_inf == 1);
  }
  CHECK(report_of(std::numeric_limits<double>::max(), 1, 1).found_inf == 0);
}

TEST_CASE("grad_norm: a step that assumes the previous update is skipped if that one was") {
  const StepReport follows = report_of(4, 1, 1, {.assumes_update = 1});  // found_inf was set by the previous step
  CHECK(follows.found_inf == 1);
  CHECK(follows.grad_norm == 2);
  CHECK(report_of(4, 1, 1, {.assumes_update = 0}).found_inf == 0);
}

TEST_CASE("grad_norm: gradients are multiplied by the clip factor and divided by the loss scale") {
  CHECK(double{state_after(36, 2, 1.5, {}).grad_factor} == doctest::Approx(1.5 / (3 + 1e-6) / 2).epsilon(1e-7));
}
