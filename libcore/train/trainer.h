// The training run: starts, resumes, or finds itself complete; steps, validates, reports, saves.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "comm/communicator.h"
#include "comm/operation_label.h"
#include "device/step_state.h"
#include "engine/memory_plan.h"
#include "engine/pipeline.h"
#include "engine/rank_plans.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "text/tokenizer.h"
#include "train/choices_record.h"
#include "train/data_feed.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/profiler.h"
#include "train/signals.h"
#include "train/start.h"
#include "train/step_queue.h"
#include "train/step_totals.h"

namespace mtl {

/// Sizes of a step as the options say, on one rank.
RunShape run_shape(const TrainOptions& options, const GptConfig& config, int rank);
/// What a run of these options takes of a rank.
MemoryPlan plan_run(const TrainOptions& options, const GptConfig& config, int rank);
/// And of all ranks; what --dry-run and mtl-topo print.
std::vector<RankPlan> plan_run(const TrainOptions& options, const GptConfig& config);

/// A start that could not be loaded, on any rank; all ranks throw the same.
class LoadError : public Error {
 public:
  using Error::Error;
};

/// One rank's place among the others.
struct RankGroups {
  int rank = 0;
  ProcessGroups groups;
  std::vector<std::string> hosts = {"here"};  // by rank, for messages
};

class Trainer {
 public:
  /// `start` says from where; see start.h. Without a tokenizer (null) documents cannot be distinguished. Allocates
  /// everything the run needs, and loads the start. All ranks make one, and call run(). Throws LoadError.
  Trainer(const TrainOptions& options, RunStart start, const Tokenizer* tokenizer, RankGroups ranks,
          SignalRequests& signals, Console& console);

  /// Runs to the end, to --exit-interval or to a signal. Exit::ok, or Exit::requeue after a save that a signal asked
  /// for. A fault of one rank ends the run on all: they save unless one of them has begun an update, and throw the same
  /// AgreedError.
  Exit run();
  /// Where the current step stands, for messages.
  const OperationProgress& progress() const { return progress_; }

 private:
  Exit run_to_end();
  bool join_exchange();
  bool can_save() const;
  [[noreturn]] void end_together(bool can_save, const std::exception_ptr& own);
  void prepare();
  void train_step();
  const StepBatch& next_batch();
  void give_step(const StepBatch& batch);
  StepInputs begin_step();
  bool read_reports();
  bool must_end_steps() const;
  void take_report();
  void end_step(const GivenStep& step, bool gradients_remain);
  void count_step(const GivenStep& step);
  void check_buffers();
  void compute_gradients(const StepBatch& batch);
  void update();
  void report_nonfinite_gradients(const GivenStep& step, bool gradients_remain);
  bool counts_losses() const;
  void exchange(StepTotals& totals);
  bool save_if_due();
  Exit end_early();
  [[noreturn]] void end_exhausted();
  void report_interval(bool final);
  bool is_complete() const;
  bool is_validation_iteration() const { return state_.iteration % options_.batch.eval_interval == 0; }
  bool validate(bool final);
  std::optional<double> held_out_loss(DataFeed& feed, const char* name, bool final);
  bool answer_signals(const char* name, std::int64_t batch, bool final);
  void report_held_out(const char* name, double loss, bool final);
  void print_status(const std::string& where);
  Exit finish();
  void save(bool validation_is_due);
  Json extra_state(bool validation_is_due) const;
  void check_validation_samples() const;
  void check_agreement(const RunStart& start);
  void resume_from(RunStart& start);
  void load(const ModelSource& source, const StartPoint& point);
  void load_choices();
  std::vector<SavedChoices> gather_choices();
  void resume_scale(const std::string& checkpoint);
  void refuse_other_data(const std::string& checkpoint) const;
  Json start_record() const;
  SamplerOptions sampler(Split split, std::int64_t consumed) const;
  std::unique_ptr<DataFeed> feed(Split split, std::int64_t consumed);
  std::int64_t count_iterations() const;

  bool is_rank_zero() const { return ranks_.rank == 0; }

  SignalRequests& signals_;
  const TrainOptions& options_;
  Console& console_;
  const Tokenizer* tokenizer_;
  RankGroups ranks_;
  GptConfig config_;
  TrainState state_;                                     // where training stands: what a checkpoint remembers
  std::shared_ptr<const SaveDirectory> save_directory_;  // --save; null: nothing is kept
  struct SavePoint {
    std::int64_t iteration = -1;
    bool validation_is_due = false;  // of this iteration: a signal ended it, a resume repeats it
    bool operator==(const SavePoint&) const = default;
  };
  bool validating_ = false;         // a validation has begun and not ended: a resume repeats it
  SavePoint saved_;                 // of the newest checkpoint in --save that this run wrote or resumed
  bool validation_is_due_ = false;  // in the state that is resumed

  BatchSizes batch_sizes_;
  std::int64_t iterations_;           // of the whole run
  std::int64_t skipped_samples_ = 0;  // of iterations without an update
  TrainingData data_;
  RunShape shape_;                     // of the largest step
  std::map<int, StepSchedule> steps_;  // by number of micro-batches
  Stage stage_;
  ParamStore params_;
  MemoryPlan plan_;
  Stream stream_;
  LrScheduleOptions schedule_;
  StepMemory step_memory_;
  StepQueue given_;
  Optimizer optimizer_;
  Pipeline pipeline_;
  StepGraphs graphs_;
  GradScaler scaler_;
  StepInputs inputs_;  // of the last step whose report was read
  StepReport report_;  // and the report
  OperationProgress progress_{0, 0};
  StepBatches train_batches_;
  std::optional<StepBatches> held_out_batches_;  // of validation, and after the last one of the test
  std::unique_ptr<DataFeed> train_feed_, valid_feed_;
  std::optional<std::size_t> buffers_made_;           // after the first step
  std::string choices_context_;                       // empty: nothing is measured on the device
  std::string choices_file_;                          // empty: none
  std::map<std::string, std::string> filed_choices_;  // those that the file is known to have

  StepTotals last_;  // what the ranks exchanged after the last step or evaluation batch
  std::optional<Metrics> metrics_;
  Profiler profiler_;
  double peak_tflops_ = 0;
  struct Interval {                             // since the last log line
    double began = 0, stalled = 0, waited = 0;  // seconds
    std::int64_t timed = 0, samples = 0;        // steps of this process, and what they took
    std::int64_t last_size = 0;                 // samples of the last step
    double loss_sum = 0;                        // of the updates with a finite loss
    std::int64_t counted = 0, skipped = 0, nan = 0;
    double nonzero_updates = 0, lost_updates = 0, lost_copies = 0;  // as in StepReport, of all ranks
  } interval_;
};

}  // namespace mtl
