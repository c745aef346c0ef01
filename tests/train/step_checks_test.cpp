// The verdict on a step: numbers that are not finite, and losses and gradient norms far above the first ones.
#include "train/step_checks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace mtl;

namespace {

/// Judges a step whose mean loss is `loss`. A norm that is not finite means that the step made no update.
StepChecks::Verdict judge(StepChecks& checks, double loss, double norm = 1) {
  StepTotals totals;
  totals.loss_sum = 8 * loss;
  totals.tokens = 8;
  StepReport report;
  report.grad_norm = norm;
  report.found_inf = std::isfinite(norm) ? 0 : 1;
  return checks.judge(totals, report);
}

TrainOptions watching(bool loss, bool norm) {
  TrainOptions options;
  options.checks.spiky_loss = loss;
  options.checks.large_grads = norm;
  return options;
}

/// Judges steps with the losses and norms 1, 2, ... up to `count`.
void judge_first(StepChecks& checks, int count) {
  for (int i = 1; i <= count; ++i) {
    const StepChecks::Verdict verdict = judge(checks, i % 60, i);
    CHECK(verdict.failure.empty());
    CHECK(verdict.warning.empty());
  }
}

}  // namespace

TEST_CASE("step checks: a loss or a gradient that is not finite is a failure, unless the flags or fp16 say otherwise") {
  TrainOptions options;
  StepChecks checks(options);
  CHECK(judge(checks, 3).failure.empty());
  for (const double bad : {double{INFINITY}, -double{INFINITY}, double{NAN}}) {
    CHECK(judge(checks, 3, bad).failure == "the gradient is not finite");
    CHECK(judge(checks, bad).failure == "the loss is not finite");
    CHECK(judge(checks, bad, bad).failure == "the gradient is not finite");
  }
  options.precision.fp16 = true;  // with a dynamic scale
  StepChecks scaled(options);
  CHECK(judge(scaled, NAN, NAN).failure.empty());
  options.precision.loss_scale = 128;
  StepChecks constant(options);
  CHECK(!judge(constant, 3, NAN).failure.empty());
  options.checks.nonfinite = false;
  StepChecks tolerant(options);
  CHECK(judge(tolerant, NAN, NAN).failure.empty());
}

TEST_CASE("step checks: warn of ten times the largest of the first hundred values, and only if asked") {
  StepChecks checks(watching(true, true));
  judge_first(checks, 100);  // losses to 59, norms to 100
  CHECK(judge(checks, 589.9, 999.9).warning.empty());
  CHECK(judge(checks, 590).warning == "the loss, 590, is 10.0 times the largest of the first 100 steps, 59");
  CHECK(judge(checks, 3, 2000).warning ==
        "the gradient norm, 2000, is 20.0 times the largest of the first 100 steps, 100");
  CHECK(judge(checks, 5900, -1000).warning ==
        "the loss, 5900, is 100.0 times the largest of the first 100 steps, 59, and the gradient norm, 1000, is 10.0 "
        "times the largest of the first 100 steps, 100");
  CHECK(judge(checks, 600).warning.find("59") != std::string::npos);  // a spike does not raise the bound
  StepChecks idle(watching(false, false));
  judge_first(idle, 100);
  CHECK(judge(idle, 1e9, 1e9).warning.empty());
  CHECK(idle.to_json().is_null());
}

TEST_CASE("step checks: values that are not finite are not among the first hundred, nor spikes") {
  TrainOptions options = watching(true, true);
  options.checks.nonfinite = false;
  StepChecks checks(options);
  for (int i = 0; i < 50; ++i) CHECK(judge(checks, NAN, INFINITY).warning.empty());
  judge_first(checks, 100);
  CHECK(judge(checks, NAN, INFINITY).warning.empty());
  CHECK(!judge(checks, 590).warning.empty());
}

TEST_CASE("step checks: a resumed run continues with the values of the first hundred steps") {
  StepChecks checks(watching(true, true));
  judge_first(checks, 99);
  StepChecks resumed(watching(true, true));
  resumed.restore(Json::parse(checks.to_json().dump()));
  CHECK(judge(resumed, 1e6).warning.empty());  // the hundredth
  CHECK(judge(resumed, 1e6, 990).warning ==
        "the gradient norm, 990, is 10.0 times the largest of the first 100 steps, 99");
  CHECK(!judge(resumed, 1e7).warning.empty());
  StepChecks other(watching(true, false));  // only the loss was watched so far
  StepChecks both(watching(true, true));
  judge_first(other, 100);
  both.restore(other.to_json());
  CHECK(judge(both, 590, 1e9).warning == "the loss, 590, is 10.0 times the largest of the first 100 steps, 59");
}

TEST_CASE("step checks: a loss of 0 is never a spike, even after 100 others of 0") {
  StepChecks checks(watching(true, false));
  for (int i = 0; i < 102; ++i) CHECK(judge(checks, 0).warning.empty());
}
