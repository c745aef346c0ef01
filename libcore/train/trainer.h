// A training run: starts or resumes, trains, validates, reports and saves. A run that is already complete does not
// train.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "comm/communicator.h"
#include "text/tokenizer.h"
#include "train/data_feed.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/profiler.h"
#include "train/run_choices.h"
#include "train/run_progress.h"
#include "train/signals.h"
#include "train/start.h"
#include "train/step_runner.h"
#include "train/step_totals.h"
#include "train/stop_request.h"

namespace mtl {

/// Thrown on all ranks if at least one of them could not load the starting state.
class LoadError : public Error {
 public:
  using Error::Error;
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
  void report_nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain);
  void exchange(StepTotals& totals);
  bool save_if_due();
  Exit end_early();
  [[noreturn]] void end_exhausted();
  void report_interval(bool final);
  bool validate(bool final);
  /// The validations of this run that are to come, with that after the last iteration.
  std::int64_t validations_left() const;
  /// The samples of a validation or test.
  std::int64_t held_out_samples() const { return options_.batch.eval_iters * run_.batch_sizes.largest(); }
  std::optional<double> held_out_loss(DataFeed& feed, const char* name);
  bool answer_requests(const char* name, std::int64_t batch);
  void report_held_out(const char* name, double loss, bool final, std::int64_t samples_before);
  void print_status(const std::string& where);
  double seconds_left(double seconds) const;
  void print_begin();
  void print_times();
  void draw_status();
  Exit finish();
  void save();
  void check_validation_samples() const;
  void check_agreement(const RunStart& start);
  void resume_from(RunStart& start);
  void load(const ModelSource& source, const StartPoint& point);
  void check_data(const std::string& checkpoint) const;
  void report_other_data(const std::string& checkpoint, const std::string& difference) const;
  Json start_record() const;
  SamplerOptions sampler(Split split, std::int64_t consumed) const;
  std::unique_ptr<DataFeed> feed(Split split, std::int64_t consumed);

  bool is_rank_zero() const { return ranks_.rank == 0; }

  static constexpr const char* kNoSaveFolder = "USR1 requests a save, but nothing is saved without --save";

  SignalRequests& signals_;
  StopRequest stop_request_;  // never requests anything on ranks other than 0
  const TrainOptions& options_;
  Console& console_;
  const Tokenizer* tokenizer_;
  RankGroups ranks_;
  RunProgress run_;
  std::shared_ptr<const SaveDirectory> save_directory_;  // --save; null: nothing is saved
  struct SavePoint {
    std::int64_t iteration = -1;
    bool validation_is_due = false;  // this iteration's validation is not complete; a resumed run repeats it
    bool operator==(const SavePoint&) const = default;
  };
  std::optional<double> validation_seconds_;  // the last one took
  SavePoint saved_;                           // the newest checkpoint in --save that this run wrote or resumed from

  TrainingData data_;
  StepRunner steps_;
  RunChoices choices_;
  StepBatches train_batches_;
  std::optional<StepBatches> held_out_batches_;  // for validation, then for the test
  std::unique_ptr<DataFeed> train_feed_, valid_feed_;

  StepTotals totals_;  // exchanged after the last step or evaluation batch; requests stay until they are answered
  std::optional<Metrics> metrics_;
  Profiler profiler_;
  double peak_tflops_ = 0;
};

}  // namespace mtl
