// How far a run has come: the counts, the next step's inputs, and the sums of a log interval.
#include "train/run_progress.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace mtl;

namespace {

/// Batches of 4 samples, and a learning rate that falls from 1 at sample 0 to 0 at sample 40.
TrainOptions ten_iterations() {
  TrainOptions options;
  options.data.seq_length = 8;
  options.batch.micro_batch_size = 2;
  options.batch.global_batch_size = 4;
  options.batch.train_iters = 10;
  options.batch.eval_interval = 2;
  options.optimizer.schedule.lr = 1;
  return options;
}

/// Makes the next step, whose loss is `loss`. A step with an overflow makes no update.
void make_step(RunProgress& run, double loss, bool overflows = false) {
  StepReport report;
  report.found_inf = overflows ? 1 : 0;
  report.grad_norm = -std::abs(loss);
  StepTotals totals;
  totals.loss_sum = 16 * loss;
  totals.tokens = 16;
  totals.nonzero_updates = 8;
  totals.lost_updates = 2;
  totals.zero_gradients = 7;
  totals.params_squares = 9;
  run.count(run.next_step({}, {}), report, totals);
}

}  // namespace

TEST_CASE("a step advances the data, and an update also the schedule") {
  const TrainOptions options = ten_iterations();
  RunProgress run(options, std::nullopt);
  CHECK(run.iterations == 10);
  for (bool overflows : {false, true, false}) make_step(run, 3, overflows);
  CHECK(run.state.iteration == 3);
  CHECK(run.state.consumed_samples == 12);
  CHECK(run.state.skipped_iterations == 1);
  CHECK(run.state.optimizer_steps == 2);
  const EnqueuedStep next = run.next_step({}, {});
  CHECK(next.iteration == 4);
  CHECK(next.samples == 4);
  CHECK(next.inputs.step == 3);
  CHECK(next.inputs.lr == doctest::Approx(1 - 8.0 / 40));
  CHECK(next.inputs.assumes_update == 0);
}

TEST_CASE("an iteration that is left out advances the data, but neither the schedule nor the loss scale") {
  TrainOptions options = ten_iterations();
  options.precision.fp16 = true;
  options.checks.iterations_to_skip = {"2", "4"};
  options.logging.num_zeros_in_grad = options.logging.params_norm = true;
  RunProgress run(options, std::nullopt);
  make_step(run, 3);
  CHECK(!run.is_left_out(1));
  CHECK(run.is_left_out(2));
  CHECK(run.interval_report().grad_norm == 3);
  CHECK(run.interval_report().num_zeros == 7);
  CHECK(run.interval_report().params_norm == 3);
  const StepInputs before = run.next_step({}, {}).inputs;
  run.leave_out({});
  const EnqueuedStep next = run.next_step({}, {});
  CHECK(next.iteration == 3);
  CHECK(next.inputs.step == before.step);
  CHECK(next.inputs.lr == before.lr);
  CHECK(next.inputs.loss_scale == before.loss_scale);
  CHECK(run.state.consumed_samples == 8);
  CHECK(run.state.optimizer_steps == 1);
  CHECK(run.validation_is_due);  // after iteration 2, as after any other
  CHECK(!run.was_skipped());
  const IntervalReport report = run.interval_report();
  CHECK(report.skipped_iterations == 1);
  CHECK(report.lm_loss == 3);
  CHECK(report.consumed_samples == 8);
  CHECK(!report.grad_norm);
  CHECK(!report.num_zeros);
  CHECK(!report.params_norm);
  CHECK(run.interval.samples == 4);  // of which rates are computed

  run.record(Json("files"), nullptr);
  RunProgress resumed(options, run.state);
  resumed.resume("checkpoint");
  CHECK(resumed.next_step({}, {}).inputs.lr == next.inputs.lr);
  CHECK(resumed.is_left_out(4));
}

TEST_CASE("the norm of the parameters is only computed for log lines, and only if asked") {
  TrainOptions options = ten_iterations();
  options.logging.log_interval = 4;
  for (const bool asked : {false, true}) {
    options.logging.params_norm = asked;
    RunProgress run(options, std::nullopt);
    for (int iteration = 1; iteration <= 10; ++iteration) {
      const EnqueuedStep step = run.next_step({}, {});
      CHECK(step.sums_params == (asked && (iteration % 4 == 0 || iteration == 10)));
      make_step(run, 3);
    }
  }
}

TEST_CASE("a validation is due from the step of its iteration on, so that a fault before it does not lose it") {
  TrainOptions options = ten_iterations();
  for (const std::int64_t eval_iters : {0, 1}) {
    options.batch.eval_iters = eval_iters;
    RunProgress run(options, std::nullopt);
    for (bool is_due : {false, true, false}) {
      make_step(run, 3);
      CHECK(run.validation_is_due == (is_due && eval_iters > 0));
      if (run.validation_is_due) {
        run.record(Json("files"), nullptr);
        CHECK(RunProgress(options, run.state).validation_is_due);
      }
    }
  }
}

TEST_CASE("a log line has the mean of the finite losses of updates") {
  const TrainOptions options = ten_iterations();
  RunProgress run(options, std::nullopt);
  make_step(run, 2);
  make_step(run, 100, true);
  make_step(run, NAN);
  make_step(run, 4);
  const IntervalReport report = run.interval_report();
  CHECK(report.iteration == 4);
  CHECK(report.train_iterations == 10);
  CHECK(report.consumed_samples == 16);
  CHECK(report.global_batch_size == 4);
  CHECK(report.lm_loss == 3);
  CHECK(report.grad_norm == 4);
  CHECK(report.skipped_iterations == 1);
  CHECK(report.nan_iterations == 1);
  CHECK(!report.lost_updates);  // layers compute in fp32
}

TEST_CASE("a run that resumes a recorded state continues its counts, sums and schedule") {
  TrainOptions options = ten_iterations();
  options.precision.fp16 = true;
  RunProgress whole(options, std::nullopt);
  for (bool overflows : {true, false, true}) make_step(whole, 3, overflows);
  whole.validation_is_due = true;
  whole.record(Json("files"), nullptr);
  CHECK(whole.state.extra.at("data") == Json("files"));
  CHECK(whole.state.loss_scale == whole.scaler().scale());

  RunProgress resumed(options, whole.state);
  resumed.resume("checkpoint");
  CHECK(!resumed.validation_is_due);  // not after iteration 3
  resumed.validation_is_due = true;
  resumed.record(Json("files"), nullptr);
  CHECK(resumed.state == whole.state);
  for (RunProgress* run : {&whole, &resumed}) make_step(*run, 5);
  CHECK(resumed.interval_report().lm_loss == 4);
  CHECK(resumed.interval_report().skipped_iterations == 2);
  const StepInputs expected = whole.next_step({}, {}).inputs;
  const StepInputs inputs = resumed.next_step({}, {}).inputs;
  CHECK(inputs.lr == expected.lr);
  CHECK(inputs.loss_scale == expected.loss_scale);
  CHECK(inputs.step == expected.step);

  whole.state.loss_scale = INFINITY;
  CHECK_THROWS_WITH_AS(RunProgress(options, whole.state).resume("checkpoint"),
                       "checkpoint: the loss scale inf is not positive and finite; load another checkpoint", Error);
}

TEST_CASE("the lowest finite validation loss marks the best state, and is recorded") {
  TrainOptions options = ten_iterations();
  RunProgress off(options, std::nullopt);
  off.note_validation(1);
  CHECK(!off.best);
  options.checkpoint.keep_best = true;
  RunProgress run(options, std::nullopt);
  std::vector<std::int64_t> best;
  for (const double loss : {double(NAN), 3.0, 3.0, 2.5, double(-INFINITY), 2.75}) {
    make_step(run, 4);
    run.note_validation(loss);
    if (run.is_best()) best.push_back(run.state.iteration);
  }
  CHECK(best == std::vector<std::int64_t>{2, 4});
  run.record(Json("files"), nullptr);
  for (const bool keeps : {true, false}) {  // a session without the flag leaves the record to later ones
    options.checkpoint.keep_best = keeps;
    RunProgress resumed(options, run.state);
    resumed.resume("checkpoint");
    resumed.note_validation(keeps ? 2.5 : 1);
    REQUIRE(resumed.best);
    CHECK(resumed.best->iteration == 4);
    CHECK(resumed.best->loss == 2.5);
    resumed.record(Json("files"), nullptr);
    CHECK(resumed.state.extra.at("best") == run.state.extra.at("best"));
  }
}

TEST_CASE("a run ends after its last validation") {
  const TrainOptions options = ten_iterations();
  TrainState state;
  state.iteration = 10;
  state.extra.set("validation_is_due", true);
  RunProgress run(options, state);
  CHECK(run.validation_is_due);
  CHECK(!run.is_complete());
  run.state.extra.set("finished", true);
  CHECK(run.is_complete());
  run.state.iteration = 5;
  CHECK(!run.is_complete());
  CHECK(!run.is_validation_iteration());
  CHECK(run.next_due(3) == 6);
  CHECK(run.next_due(7) == 7);
  CHECK(run.next_due(20) == 10);
  CHECK(run.next_due(0) == 10);
}

TEST_CASE("a length in samples counts from the resumed state") {
  TrainOptions options = ten_iterations();
  options.batch.train_iters.reset();
  options.batch.train_samples = 41;
  TrainState state;
  state.iteration = 100;
  state.consumed_samples = 20;
  CHECK(RunProgress(options, state).iterations == 105);
}
