// Reads step reports and accounts for them: see step_queue.h.
#include "comm/text_exchange.h"
#include "train/trainer.h"

namespace mtl {

/// Returns the next step's batch. If it cannot be read, finishes all earlier steps and then rethrows.
const StepBatch& Trainer::next_batch() {
  const ProfileRange range(steps_.stream(), ProfileKind::phase, "data");
  try {
    return train_feed_->next(steps_.stream());
  } catch (...) {
    while (!steps_.queue().empty()) finish_oldest_step();
    throw;
  }
}

/// Reads the reports that are due. Returns true if no step is in flight, so that the state is consistent.
bool Trainer::read_reports() {
  while (std::ssize(steps_.queue()) > (must_drain_queue() ? 0 : steps_.max_in_flight())) finish_oldest_step();
  return steps_.queue().empty();
}

/// Returns true if the steps in flight must end before another one may start.
bool Trainer::must_drain_queue() const {
  const std::int64_t iteration = run_.state.iteration + std::ssize(steps_.queue());
  const auto divides = [&](const auto& interval) { return is_due(interval, iteration); };
  const CheckpointOptions& checkpoint = options_.checkpoint;
  return iteration == run_.iterations || checkpoint.is_save_due(iteration) || divides(checkpoint.exit_interval) ||
         (options_.batch.validates() && divides(options_.batch.eval_interval)) || totals_.ends() ||
         divides(options_.checks.replica_interval) || totals_.save + totals_.status > 0 || run_.was_skipped() ||
         run_.is_left_out(iteration + 1);
}

/// Waits for the oldest step, and accounts for it.
void Trainer::finish_oldest_step() {
  const ProfileRange range(steps_.stream(), ProfileKind::phase, "report");
  StepReport report;
  const EnqueuedStep step = steps_.finish_oldest(report);
  StepTotals totals = step.totals;
  totals.take(report);
  totals.wrong = state_digest_ && *state_digest_ != report.digests.state_before ? 1 : 0;
  exchange_step(totals);

  check_skipped(totals_.skipped, step, report);
  if (totals_.wrong > 0) end_at_changed_state(totals.wrong > 0);
  if (state_digest_) state_digest_ = report.digests.state_after;
  StepQueue to_repeat;  // steps that assumed this step's update, and so made none
  const bool gradients_remain = steps_.queue().empty();
  if (report.found_inf != 0) to_repeat = steps_.drop();
  end_step(step, report, gradients_remain);
  if (steps_.queue().empty()) expect_next_iteration();
  const bool is_first = !steps_.has_stepped();
  if (is_first) {  // it has measured all candidates
    for (const std::string& line : steps_.stream().choices().refusals()) console_.warn(line);
    if (!totals_.ends()) report_->print_times(validation_);
  }
  steps_.check_buffers();
  if (is_first) choices_.store();
  report_progress();
  if (totals_.writing == 0) commit_save();
  if (run_.scaler().is_exhausted()) end_exhausted();
  for (const EnqueuedStep& later : to_repeat) enqueue_step(*later.batch);
}

void Trainer::report_progress() {
  if (is_due(options_.logging.log_interval, run_.state.iteration))
    report_->report_interval(train_feed_->stalled_seconds(), false);
  if (is_rank_zero()) report_->draw_status(validation_);
}

/// Collective: exchanges a step's totals and the requests until its end. They are then in totals_.
void Trainer::exchange_step(StepTotals totals) {
  stop_request_.note_step();
  totals.take(signals_, stop_request_);
  exchange(totals);
  totals.save += totals_.save;  // requested at an earlier step, and not answered yet
  totals.status += totals_.status;
  totals_ = totals;
}

/// Accounts for an iteration whose samples are read, but for which nothing is computed. No step is in flight.
void Trainer::leave_out(const StepBatch& batch) {
  expect_next_iteration();
  exchange_step({});
  run_.leave_out(batch);
  console_.info(cat("iteration ", run_.state.iteration, " is left out, as --iterations-to-skip requests"));
  report_progress();
  if (totals_.writing == 0) commit_save();
}

/// Accounts for a step. `gradients_remain` means that no later step has overwritten its gradients.
void Trainer::end_step(const EnqueuedStep& step, const StepReport& report, bool gradients_remain) {
  if (!options_.checks.repeats_unexpected()) verdict_ = run_.checks.judge(totals_, report);
  const bool is_undone = report.found_inf != 0 && !verdict_.failure.empty();
  if (!is_undone) run_.count(step, report, totals_);
  // Overflows are expected as long as a dynamic loss scale can still fall.
  if (report.found_inf != 0 && (!run_.scaler().is_dynamic() || run_.scaler().is_exhausted()))
    report_nonfinite_gradients(step, gradients_remain);
  steps_.end_step();
  if (!verdict_.failure.empty()) end_at_fault(step, verdict_.failure, Exit::failure, failure_remedy(step));
  if (!verdict_.warning.empty() && is_rank_zero())
    console_.warn(cat("iteration ", step.iteration, ": ", verdict_.warning,
                      "; if the run does not recover, resume before it with --ckpt-step and --iterations-to-skip ",
                      step.iteration));
}

/// Reports which ranks and tensors have infinite or NaN gradients.
void Trainer::report_nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain) {
  constexpr std::size_t kMaxNames = 3;
  const std::string own = join_first(steps_.nonfinite_gradients(step, gradients_remain), kMaxNames);
  std::vector<std::string> all = gather_texts(ranks_.groups.world(), own), lines;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    std::string who = all.size() == 1 ? "" : cat("rank ", rank, " (", ranks_.hosts[rank], "): ");
    lines.push_back("\n  " + who + all[rank]);
  }
  if (!is_rank_zero()) return;
  const char* what = lines.empty() ? ": the gradient is not finite in the sum over all ranks; no update was made"
                                   : ": the gradient is not finite; no update was made";
  console_.warn(cat("iteration ", step.iteration, what, join(lines, "")));
}

}  // namespace mtl
