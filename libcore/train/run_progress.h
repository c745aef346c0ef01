// How far a run has come: the state that checkpoints store, the inputs of the next step, which follow from it, and the
// sums for the next log line. It only counts, without ranks or devices.
#pragma once

#include <optional>
#include <set>

#include "ckpt/checkpoint.h"
#include "optim/grad_scaler.h"
#include "optim/lr_schedule.h"
#include "run/options.h"
#include "text/tokenizer.h"
#include "train/log_line.h"
#include "train/step_checks.h"
#include "train/step_queue.h"

namespace mtl {

/// Sums over the steps since the last log line.
struct IntervalSums {
  double began = 0, stalled = 0, waited = 0;  // seconds; `stalled` is the data feed's at the beginning
  std::int64_t steps = 0, samples = 0;        // of this process
  double loss_sum = 0, z_loss_sum = 0;        // over updates with finite loss
  std::int64_t counted = 0, skipped = 0, nan = 0;
  double nonzero_updates = 0, lost_updates = 0, lost_copies = 0;  // as in StepReport, for all ranks

  double loss() const { return loss_sum / double(counted); }
  /// Returns and restores the sums that a run which was saved within an interval continues.
  Json to_json() const;
  void restore(const Json& saved);
};

/// The checkpoint with the lowest validation loss so far.
struct BestCheckpoint {
  std::int64_t iteration = 0;
  double loss = 0;
};

class RunProgress {
 public:
  /// `resumed` is the state of the checkpoint to continue, or empty. Throws what run_schedule() throws.
  RunProgress(const TrainOptions& options, const std::optional<TrainState>& resumed);
  /// Continues with the checkpoint's counts, sums and loss scale. The scale stays as the flags say unless both are
  /// dynamic. Throws Error(bad_data) if the checkpoint's is invalid.
  void resume(const std::string& checkpoint);

  /// A run is complete after its last validation. If that validation was interrupted, a resumed run repeats it.
  bool is_complete() const;
  bool is_validation_iteration() const { return is_due(options_.batch.eval_interval, state.iteration); }
  /// Returns the next iteration at which something is due that is due every `interval` iterations (0: never) and at the
  /// end.
  std::int64_t next_due(std::int64_t interval) const;

  /// Returns the step after those in flight, if each of them makes its update.
  EnqueuedStep next_step(const StepBatch& batch, const StepQueue& in_flight) const;
  /// Counts a finished step. `totals` are those of all ranks.
  void count(const EnqueuedStep& step, const StepReport& report, const StepTotals& totals);
  /// With --keep-best: takes the state as the best one if `loss`, of a complete validation, is the lowest so far.
  void note_validation(double loss);
  /// Returns true if no state before had as low a validation loss as this one.
  bool is_best() const { return best && best->iteration == state.iteration; }
  /// True if --iterations-to-skip names the iteration: its samples are read, but no step is computed.
  bool is_left_out(std::int64_t iteration) const { return left_out_.contains(iteration); }
  /// Counts the next iteration as one that was left out. No step may be in flight.
  void leave_out(const StepBatch& batch);
  /// True if the last step that was computed made no update.
  bool was_skipped() const { return report_ && report_->found_inf != 0; }
  const GradScaler& scaler() const { return scaler_; }

  /// Returns the interval's log line without times and rates.
  IntervalReport interval_report() const;
  /// Prepares `state` for a save. `data` is TrainingData::identity(). `tokenizer` may be null.
  void record(const Json& data, const Tokenizer* tokenizer);
  /// Adds `best` to the state. record() has called it.
  void record_best();

  TrainState state;  // `extra` is as in the newest checkpoint: record() changes it
  const BatchSizes batch_sizes;
  const std::int64_t iterations;   // of the whole run
  bool validation_is_due = false;  // validate before the next step: until the validation is complete
  IntervalSums interval;
  std::optional<BestCheckpoint> best;
  StepChecks checks;

 private:
  void resume_scale(const std::string& checkpoint);
  void advance(const EnqueuedStep& step);
  void count_skipped(const EnqueuedStep& step);

  const TrainOptions& options_;
  LrScheduleOptions lr_schedule_;
  GradScaler scaler_;
  std::int64_t skipped_samples_ = 0;  // of iterations without an update
  std::set<std::int64_t> left_out_;
  std::int64_t step_samples_ = 0;  // of the last iteration, as the next three
  StepInputs inputs_;
  std::optional<StepReport> report_;  // empty if it was left out
  StepTotals totals_;
};

}  // namespace mtl
