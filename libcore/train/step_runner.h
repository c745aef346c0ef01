// A rank's part of the model, with all memory that steps run in: computes gradients, updates, and evaluates. It
// enqueues commands, and knows neither the data, nor the log, nor what the run does next.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/operation_label.h"
#include "engine/pipeline.h"
#include "optim/optimizer.h"
#include "run/options.h"
#include "train/step_queue.h"

namespace mtl {

class StepRunner {
 public:
  /// Allocates the memory of the model and of a step, but for its batches. The caller must keep `groups` alive, and
  /// initialize or load params().
  StepRunner(const TrainOptions& options, const GptConfig& config, int rank, const ProcessGroups& groups);

  const GptConfig& config() const { return config_; }
  const RunShape& shape() const { return shape_; }  // of the largest step
  Stream& stream() { return stream_; }
  ParamMemory& params() { return params_; }
  ParamTraffic& traffic() { return optimizer_.traffic(); }
  /// The planned host memory for a copy of what this rank saves. Empty unless the run saves behind its steps.
  const Buffer& save_copy() const { return save_copy_; }
  /// Returns the current step's progress, for messages.
  const OperationProgress& progress() const { return progress_; }
  /// Describes whether steps run as CUDA graphs, which parts do not, and why.
  std::string graphs_text() const;

  /// Sends a step's inputs to the device. Must be called before the step's other functions.
  void begin(const EnqueuedStep& step);
  /// Collective: computes gradients of some of the step's micro-batches, so that this rank measures every algorithm
  /// that the step needs. Waits for the device. The step must then begin its gradients again:
  /// ParamTraffic::begin_step().
  void rehearse(const StepBatch& batch);
  /// Computes the step's gradients, their sums over ranks and their norm, and waits for them. May be called again: a
  /// second run computes the same digests, unless a machine computes wrong. Only with TrainOptions::takes_digests().
  StepReport compute(const EnqueuedStep& step);
  /// Returns StepDigests::state_after, unless the state has changed since.
  std::int64_t state_digest();
  /// Collective: returns a digest of the weights that this rank's layers read, when all updates have been gathered. No
  /// step may be in flight. Not with ZeRO-3, which keeps no weights between steps.
  std::int64_t weights_digest();
  /// Enqueues the step, from the batch to the weight update; after compute(), only the update. finish_oldest() reads
  /// its report.
  void enqueue(EnqueuedStep step);
  const StepQueue& queue() const { return queue_; }
  /// Returns how many steps may be in flight when the host continues with the next step.
  std::int64_t max_in_flight() const { return shape_.device == Device::cuda && !takes_digests_ ? 1 : 0; }
  /// Waits for the oldest step in the queue, removes it, and stores its report.
  EnqueuedStep finish_oldest(StepReport& report);
  /// Waits for the steps in the queue, and removes and returns them, oldest first.
  StepQueue drop();
  /// Collective: returns the parameters whose gradients are infinite or NaN on this rank in the step that was finished
  /// last. `gradients_remain` means that no later step has overwritten them. If they have been overwritten, or summed
  /// over ranks, computes them again. This is possible because no weight has changed and the step's batch is still
  /// valid.
  std::vector<std::string> nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain);
  /// Must be called once we know that all ranks have finished a step.
  void end_step() {
    if (queue_.empty()) optimizer_.end_step();
  }
  /// True while this rank may have updated weights that other ranks have not updated yet.
  bool is_updating() const { return optimizer_.update_begun(); }

  /// True on the one rank of those that read the same samples that counts their tokens.
  bool counts_tokens() const;
  /// Evaluation: begin_evaluation(), evaluate() for every batch, then loss_sum(). `totals` counts the tokens.
  void begin_evaluation();
  void evaluate(const StepBatch& batch, StepTotals& totals);
  double loss_sum() { return memory_.receive(stream_).loss_sums[0]; }

  /// Returns true after check_buffers().
  bool has_stepped() const { return buffers_made_.has_value(); }
  /// After the first step, checks that exactly the planned buffers exist. Later, checks that no buffer has been
  /// allocated since.
  void check_buffers();

 private:
  void compute_gradients(const StepBatch& batch);
  void send(StepInputs inputs);
  void update(bool is_reduced);
  bool captures_update() const { return shape_.graphs && optimizer_.traffic().captures_update(); }
  void run_part(int action, const std::function<void()>& body);
  bool counts_losses() const;

  const ProcessGroups& groups_;
  GptConfig config_;
  RunShape shape_;
  const bool takes_digests_;
  std::map<int, StepSchedule> schedules_;  // by number of micro-batches
  Stage stage_;
  ParamMemory params_;
  MemoryPlan plan_;
  Buffer save_copy_;
  Stream stream_;
  StepMemory memory_;
  StepQueue queue_;
  Optimizer optimizer_;
  Pipeline pipeline_;
  StepGraphs graphs_;
  OperationProgress progress_{.iteration = 0};
  std::optional<std::size_t> buffers_made_;  // after the first step
};

}  // namespace mtl
