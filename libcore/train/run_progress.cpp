#include "train/run_progress.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "train/run_settings.h"
#include "train/start.h"

namespace mtl {

Json IntervalSums::to_json() const {
  Json out = Json::object({{"loss_sum", loss_sum},
                           {"counted", counted},
                           {"skipped", skipped},
                           {"nan", nan},
                           {"nonzero_updates", nonzero_updates},
                           {"lost_updates", lost_updates},
                           {"lost_copies", lost_copies}});
  if (z_loss_sum != 0) out.set("z_loss_sum", z_loss_sum);
  return out;
}

void IntervalSums::restore(const Json& saved) {
  loss_sum = saved.number_or("loss_sum", 0);
  z_loss_sum = saved.number_or("z_loss_sum", 0);
  counted = saved.int_or("counted", 0);
  skipped = saved.int_or("skipped", 0);
  nan = saved.int_or("nan", 0);
  nonzero_updates = saved.number_or("nonzero_updates", 0);
  lost_updates = saved.number_or("lost_updates", 0);
  lost_copies = saved.number_or("lost_copies", 0);
}

// If the run's length is given in samples, it ends when no further batch fits, regardless of the batch sizes so far.
RunProgress::RunProgress(const TrainOptions& options, const std::optional<TrainState>& resumed)
    : state(resumed.value_or(TrainState{})),
      batch_sizes(options.batch_sizes()),
      iterations(options.batch.train_samples
                     ? state.iteration +
                           batch_sizes.count_iterations(*options.batch.train_samples, state.consumed_samples)
                     : options.train_iters()),
      validation_is_due(state.extra.is_object() && state.extra.bool_or("validation_is_due", false) &&
                        is_due(options.batch.eval_interval, state.iteration)),
      checks(options),
      options_(options),
      lr_schedule_(run_schedule(options, state.extra)),
      scaler_(scaler_of(options.precision)) {
  if (options.skip_train) state.consumed_valid_samples = 0;  // as in Megatron-LM
  for (const std::string& iteration : options.checks.iterations_to_skip)
    left_out_.insert(parse_int(iteration).value_or(0));
}

void RunProgress::resume(const std::string& checkpoint) {
  skipped_samples_ = state.extra.int_or("skipped_samples", state.skipped_iterations * batch_sizes.largest());
  resume_scale(checkpoint);
  if (const Json* saved = state.extra.find("best"))
    best = {.iteration = saved->int_or("iteration", 0), .loss = saved->number_or("loss", 0)};
  if (const Json* saved = state.extra.find("checks")) checks.restore(*saved);
  // The run was saved within a log interval.
  if (const Json* saved = state.extra.find("interval")) interval.restore(*saved);
}

void RunProgress::resume_scale(const std::string& checkpoint) {
  const Json* trackers = state.extra.find("loss_scaler");
  if (trackers == nullptr) return;
  const auto scale = static_cast<float>(state.loss_scale);
  if (!std::isfinite(scale) || scale <= 0)
    fail(Exit::bad_data, checkpoint, ": the loss scale ", state.loss_scale,
         " is not positive and finite; load another checkpoint");
  scaler_.restore({.scale = scale,
                   .growth_tracker = trackers->at("growth_tracker").as_int(),
                   .hysteresis_tracker = trackers->at("hysteresis_tracker").as_int()});
}

bool RunProgress::is_complete() const {
  if (state.iteration != iterations) return state.iteration > iterations;
  return state.extra.is_object() && state.extra.bool_or("finished", false);
}

std::int64_t RunProgress::next_due(std::int64_t every) const {
  return every > 0 ? std::min(iterations, (state.iteration / every + 1) * every) : iterations;
}

EnqueuedStep RunProgress::next_step(const StepBatch& batch, const StepQueue& in_flight) const {
  GradScaler scaler = scaler_;
  for (std::size_t step = 0; step < in_flight.size(); ++step) scaler.update(false);
  const std::int64_t consumed = state.consumed_samples + samples_of(in_flight);
  // Only steps that made an update advance the schedule. All steps advance the data.
  const std::int64_t scheduled = consumed - skipped_samples_, iteration = state.iteration + std::ssize(in_flight) + 1;
  const bool is_logged = is_due(options_.logging.log_interval, iteration) || iteration == iterations;
  return {.batch = &batch,
          .iteration = iteration,
          .inputs = {.step = state.optimizer_steps + std::ssize(in_flight) + 1,
                     .lr = learning_rate(lr_schedule_, scheduled),
                     .decoupled_lr = decoupled_rate(lr_schedule_, scheduled),
                     .weight_decay = weight_decay(lr_schedule_, scheduled),
                     .loss_scale = scaler.scale(),
                     .assumes_update = !in_flight.empty()},
          .samples = batch_sizes.running(consumed),
          .sums_params = options_.logging.params_norm && is_logged,
          .totals = {}};
}

void RunProgress::advance(const EnqueuedStep& step) {
  step_samples_ = step.samples;
  inputs_ = step.inputs;
  ++state.iteration;
  state.consumed_samples += step.samples;
  validation_is_due = options_.batch.validates() && is_validation_iteration();
  ++interval.steps;
}

/// Counts an iteration without an update.
void RunProgress::count_skipped(const EnqueuedStep& step) {
  ++state.skipped_iterations;
  skipped_samples_ += step.samples;
  ++interval.skipped;
}

void RunProgress::leave_out(const StepBatch& batch) {
  const EnqueuedStep step = next_step(batch, {});
  advance(step);
  count_skipped(step);
  report_.reset();
}

void RunProgress::count(const EnqueuedStep& step, const StepReport& report, const StepTotals& totals) {
  advance(step);
  report_ = report;
  totals_ = totals;
  scaler_.update(was_skipped());
  interval.samples += step.samples;
  interval.waited += totals.waited;
  if (was_skipped())
    count_skipped(step);
  else
    ++state.optimizer_steps;
  const double loss = totals.loss();
  if (!std::isfinite(loss)) {
    ++interval.nan;
  } else if (!was_skipped()) {
    interval.loss_sum += loss;
    interval.z_loss_sum += totals.z_loss();
    ++interval.counted;
  }
  interval.nonzero_updates += totals.nonzero_updates;
  interval.lost_updates += totals.lost_updates;
  interval.lost_copies += totals.lost_copies;
}

void RunProgress::note_validation(double loss) {
  if (!options_.checkpoint.keep_best || !std::isfinite(loss) || (best && best->loss <= loss)) return;
  best = {.iteration = state.iteration, .loss = loss};
}

IntervalReport RunProgress::interval_report() const {
  IntervalReport report;
  report.iteration = state.iteration;
  report.train_iterations = iterations;
  report.consumed_samples = state.consumed_samples;
  report.learning_rate = inputs_.lr;
  report.global_batch_size = step_samples_;
  if (interval.counted > 0) report.lm_loss = interval.loss();
  if (interval.counted > 0 && options_.batch.z_loss != 0)
    report.z_loss = interval.z_loss_sum / double(interval.counted);
  report.loss_scale = inputs_.loss_scale;
  if (report_) {
    report.grad_norm = std::fabs(report_->grad_norm);  // a NaN has a sign
    if (options_.logging.num_zeros_in_grad) report.num_zeros = static_cast<std::int64_t>(totals_.zero_gradients);
    if (options_.logging.params_norm) report.params_norm = std::sqrt(totals_.params_squares);
  }
  report.skipped_iterations = interval.skipped;
  report.nan_iterations = interval.nan;
  const Precision precision = precision_of(options_.precision);
  if (precision.compute != DType::f32 && interval.nonzero_updates > 0) {
    report.lost_updates = interval.lost_updates / interval.nonzero_updates;
    if (precision.has_main_params())
      report.lost_updates_copy = (interval.lost_updates + interval.lost_copies) / interval.nonzero_updates;
  }
  return report;
}

void RunProgress::record_best() {
  if (best) state.extra.set("best", Json::object({{"iteration", best->iteration}, {"loss", best->loss}}));
}

void RunProgress::record(const Json& data, const Tokenizer* tokenizer) {
  state.loss_scale = scaler_.scale();
  state.extra = Json::object({{"seed", options_.seed},
                              {"dropout", dropout_to_json(options_.dropout())},
                              {"settings", settings_record(options_, lr_schedule_)},
                              {"finished", false},
                              {"validation_is_due", validation_is_due},
                              {"skipped_samples", skipped_samples_},
                              {"data", data},
                              {"tokenizer_hash", tokenizer == nullptr ? Json() : Json(hash_text(tokenizer->hash()))},
                              {"interval", interval.to_json()},
                              {"precision", precision_record(precision_of(options_.precision))}});
  if (scaler_.is_dynamic()) {
    state.extra.set("loss_scaler", Json::object({{"growth_tracker", scaler_.state().growth_tracker},
                                                 {"hysteresis_tracker", scaler_.state().hysteresis_tracker}}));
  }
  record_best();
  if (Json record = checks.to_json(); !record.is_null()) state.extra.set("checks", std::move(record));
  if (const Json rollback = rollback_record(options_); !rollback.is_null()) state.extra.set("rollback", rollback);
}

}  // namespace mtl
