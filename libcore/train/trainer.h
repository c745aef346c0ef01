// A training run: starts or resumes, trains, validates, reports and saves. A run that is already complete does not
// train.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "comm/communicator.h"
#include "run/options.h"
#include "text/tokenizer.h"
#include "train/data_feed.h"
#include "train/failed_step.h"
#include "train/profiler.h"
#include "train/run_choices.h"
#include "train/run_progress.h"
#include "train/run_report.h"
#include "train/save_command.h"
#include "train/saver.h"
#include "train/signals.h"
#include "train/start.h"
#include "train/step_runner.h"
#include "train/step_totals.h"
#include "train/stop_request.h"
#include "train/validation.h"

namespace mtl {

/// Thrown on all ranks if at least one of them could not load the starting state.
class LoadError : public Error {
 public:
  using Error::Error;
};

/// Thrown when ranks exchange totals and one of them reports a failure.
class RankFailed : public Error {
 public:
  explicit RankFailed(bool can_save) : Error(Exit::failure, "a rank failed"), can_save(can_save) {}
  const bool can_save;  // all ranks hold a consistent state that has not been saved yet
};

/// A rank and its process groups.
struct RankGroups {
  int rank = 0;
  ProcessGroups groups;
  std::vector<std::string> hosts = {"here"};  // by rank, for messages
};

class Trainer {
 public:
  /// Allocates the run's memory, and loads `start` (start.h). Collective: all ranks must construct a Trainer and call
  /// run(). Without `tokenizer`, documents cannot be distinguished. Throws LoadError if the starting state cannot be
  /// loaded.
  Trainer(const TrainOptions& options, RunStart start, const Tokenizer* tokenizer, RankGroups ranks,
          SignalRequests& signals, Console& console);

  /// Runs to the end, to --exit-interval, or until a signal or a StopRequest. Returns Exit::ok, or Exit::requeue if a
  /// signal ended the run and its state was saved. A fault on one rank ends the run on all ranks. If all ranks hold an
  /// unsaved state between two steps, they save it; then all ranks throw the same AgreedError. If a signal ends a run
  /// without --save, it also throws an AgreedError.
  Exit run();
  /// Returns the current step's progress, for messages.
  const OperationProgress& progress() const { return steps_.progress(); }

 private:
  Exit run_to_end();
  bool join_exchange();
  bool can_save() const;
  [[noreturn]] void end_together(bool can_save, const std::exception_ptr& own_error);
  void prepare();
  const StepBatch& next_batch();
  void enqueue_step(const StepBatch& batch);
  bool read_reports();
  bool must_drain_queue() const;
  void finish_oldest_step();
  void end_step(const EnqueuedStep& step, const StepReport& report, bool gradients_remain);
  void exchange_step(StepTotals totals);
  void leave_out(const StepBatch& batch);
  void compute_step(const EnqueuedStep& step);
  std::string compare_runs(const EnqueuedStep& step, const StepReport& first, const StepReport& second);
  std::vector<RankResult> gather_results(const EnqueuedStep& step, const StepReport& own);
  void read_failed_step();
  void forget_failed_step();
  bool conclude(const EnqueuedStep& step, const StepReport& report);
  [[noreturn]] void end_at_repeated_failure(const EnqueuedStep& step, const StepReport& report);
  void check_state();
  void compare_replicas();
  [[noreturn]] void end_at_changed_state(bool is_own);
  [[noreturn]] void end_unsaved(const std::string& fault);
  void check_skipped(double skipped, const EnqueuedStep& step, const StepReport& report);
  std::string name_ranks(bool is_own);
  const char* resume_flag() const { return options_.checkpoint.needs_no_load_optim() ? " with --no-load-optim" : ""; }
  void report_repeated_steps() const;
  std::string failure_remedy(const EnqueuedStep& step) const;
  void report_progress();
  void report_nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain);
  double token_share(const StepBatch& batch);
  void exchange(StepTotals& totals);
  bool save_if_due();
  Exit end_early();
  [[noreturn]] void end_exhausted();
  [[noreturn]] void end_at_fault(const EnqueuedStep& step, const std::string& fault, Exit code,
                                 const std::string& remedy);
  bool validate(bool final);
  /// Tells the signals' answers that the next iteration comes before a request is handled.
  void expect_next_iteration() { signals_.begin_iteration(std::min(run_.state.iteration + 1, run_.iterations)); }
  bool answer(const StepTotals& requested, const std::string& where);
  bool answer_requests(const std::string& where);
  Exit finish();
  void save(bool goes_on, bool persists = true);
  void commit_save();
  void finish_save(double began);
  void rescue(bool can_save);
  void run_command(const std::string& checkpoint, std::int64_t iteration);
  void await_command();
  void end_commands();
  void check_agreement(const RunStart& start);
  void resume_from(RunStart& start);
  void load(const ModelSource& source, const StartPoint& point);
  void check_data(const std::string& checkpoint) const;
  void report_other_data(const std::string& checkpoint, const std::string& difference) const;

  bool is_rank_zero() const { return ranks_.rank == 0; }

  SignalRequests& signals_;
  StopRequest stop_request_;  // never requests anything on ranks other than 0
  const TrainOptions& options_;
  Console& console_;
  const Tokenizer* tokenizer_;
  RankGroups ranks_;
  RunProgress run_;
  Saver saver_;
  SaveCommand command_;                    // on rank 0
  std::int64_t command_iteration_ = -1;    // the iteration of the checkpoint that it got last
  int patience_ = SaveCommand::kPatience;  // seconds that a run which has to end still waits for commands
  bool has_failed_ = false;
  TrainingData data_;
  StepRunner steps_;
  RunChoices choices_;
  StepBatches train_batches_;
  std::unique_ptr<DataFeed> train_feed_;
  Validation validation_;
  std::optional<RunReport> report_;  // from prepare() on

  double save_began_ = 0;   // now_seconds(), of the pending save
  double save_waited_ = 0;  // seconds that steps have waited for it

  // With --rerun-mode:
  StepChecks::Verdict verdict_;                // on the current step
  std::optional<FailedStep> failed_before_;    // a step of an earlier session that is ahead
  std::optional<std::int64_t> state_digest_;   // their digest after the last update
  std::int64_t repeated_ = 0, differing_ = 0;  // steps that were computed twice; those of them that differed

  StepTotals totals_;  // exchanged after the last step or evaluation batch; requests stay until they are answered
  Profiler profiler_;
};

}  // namespace mtl
