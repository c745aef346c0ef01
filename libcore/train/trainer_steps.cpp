// What the host does with the reports of steps, when it reads them: see step_queue.h.
#include <cmath>

#include "kernels/attention_variant.h"
#include "train/trainer.h"

namespace mtl {

/// The next step's batch. Where there is none, the steps before it end first: they are sound.
const StepBatch& Trainer::next_batch() {
  const ProfileRange range(stream_, ProfileKind::phase, "data");
  try {
    return train_feed_->next(stream_);
  } catch (...) {
    while (!given_.empty()) take_report();
    throw;
  }
}

/// Reads the reports that are due. Returns whether no step is under way: the state is that after a whole number of
/// steps.
bool Trainer::read_reports() {
  while (given_.size() > (must_end_steps() ? 0 : given_.late())) take_report();
  return given_.empty();
}

/// Whether the steps that were given must end before another one begins.
bool Trainer::must_end_steps() const {
  const std::int64_t iteration = state_.iteration + given_.size();
  const auto divides = [&](const auto& interval) { return interval && iteration % *interval == 0; };
  const CheckpointOptions& checkpoint = options_.checkpoint;
  return iteration == iterations_ || divides(checkpoint.save_interval) || divides(checkpoint.exit_interval) ||
         (options_.batch.eval_iters > 0 && iteration % options_.batch.eval_interval == 0) ||
         last_.save + last_.status + last_.end > 0 || report_.found_inf != 0;
}

/// Waits for the oldest step, and accounts for it.
void Trainer::take_report() {
  const ProfileRange range(stream_, ProfileKind::phase, "report");
  const GivenStep step = given_.pop(step_memory_, report_);
  inputs_ = step.inputs;
  StepTotals totals = step.totals;
  totals.take(signals_);
  totals.take(report_);
  exchange(totals);
  totals.save += last_.save;  // asked for at a step before, and not answered yet
  totals.status += last_.status;
  last_ = totals;

  std::vector<GivenStep> to_repeat;  // they have assumed this step's update, and made none
  const bool gradients_remain = given_.empty();
  if (report_.found_inf != 0) to_repeat = given_.drop(step_memory_);
  end_step(step, gradients_remain);
  if (!buffers_made_)  // the first step, which has measured
    for (const std::string& line : refused_variants(stream_.choices())) console_.warn(line);
  check_buffers();
  if (state_.iteration % options_.logging.log_interval == 0) report_interval(false);
  if (scaler_.is_exhausted()) end_exhausted();
  for (const GivenStep& later : to_repeat) give_step(*later.batch);
}

/// `gradients_remain`: no later step has overwritten this one's.
void Trainer::end_step(const GivenStep& step, bool gradients_remain) {
  const bool is_skipped = report_.found_inf != 0;
  scaler_.update(is_skipped);
  // While a dynamic loss scale can fall, an overflow is part of a run.
  if (is_skipped && (!scaler_.is_dynamic() || scaler_.is_exhausted()))
    report_nonfinite_gradients(step, gradients_remain);
  if (given_.empty()) optimizer_.end_step();
  count_step(step);
}

void Trainer::count_step(const GivenStep& step) {
  const bool is_skipped = report_.found_inf != 0;
  ++state_.iteration;
  state_.consumed_samples += step.samples;
  ++interval_.timed;
  interval_.samples += step.samples;
  interval_.last_size = step.samples;
  interval_.waited += last_.waited;
  if (is_skipped) {
    ++state_.skipped_iterations;
    skipped_samples_ += step.samples;
    ++interval_.skipped;
  } else {
    ++state_.optimizer_steps;
  }
  const double loss = last_.loss();
  if (!std::isfinite(loss)) {
    ++interval_.nan;
  } else if (!is_skipped) {
    interval_.loss_sum += loss;
    ++interval_.counted;
  }
  interval_.nonzero_updates += last_.nonzero_updates;
  interval_.lost_updates += last_.lost_updates;
  interval_.lost_copies += last_.lost_copies;
}

}  // namespace mtl
