// Executes a schedule's actions on one stage: the forward passes, backward passes and messages of a training step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "comm/operation_label.h"
#include "device/memory.h"
#include "engine/batch_buffers.h"
#include "engine/memory_plan.h"
#include "engine/stage.h"
#include "engine/stage_messages.h"
#include "engine/step_graphs.h"
#include "layout/schedule.h"
#include "optim/param_traffic.h"

namespace mtl {

class Pipeline {
 public:
  /// Allocates slots, message buffers and scratch memory according to `plan`. `schedule` is for the largest step. If
  /// `params` is not null, units lease their parameters from it. If `step` is not null, it points to device memory, and
  /// its loss scale scales the gradients. The caller must keep `stage`, `stream`, `groups`, `params` and `step` alive.
  Pipeline(Stage& stage, Stream& stream, const ProcessGroups& groups, StepSchedule schedule, const MemoryPlan& plan,
           ParamOwner* params = nullptr, const StepState* step = nullptr);

  /// Makes train() run its actions as CUDA graphs from now on. The graphs read micro-batches from the slots' buffers.
  /// Messages between stages, and micro-batches that `traffic` does not capture, do not run as graphs. `traffic` must
  /// be the constructor's `params`, and `shape` must be the shape that was planned for. The caller must keep `graphs`
  /// and `traffic` alive.
  void use_graphs(StepGraphs& graphs, ParamTraffic& traffic, const RunShape& shape);
  /// Computes the gradients for the micro-batches in `buffers` and stores them in the parameters' gradients. The last
  /// stage also writes the losses of all tokens to `buffers` (with graphs: to the slots' buffers). If the tensor
  /// `loss_sums`, (2) f64, exists, the last stage adds the sums of these losses, and of the z-losses, to it. If
  /// `progress` is not null, stores the current micro-batch there, for error messages. If `schedule` is not null, it
  /// replaces the constructor's schedule, for a step with fewer micro-batches.
  void train(const BatchBuffers& buffers, OperationProgress* progress = nullptr, const StepSchedule* schedule = nullptr,
             Tensor loss_sums = {});
  /// Evaluates one micro-batch without dropout. Collective over the stages. The last stage writes the losses of all
  /// tokens to `losses`.
  void evaluate(const Batch& batch, Tensor losses);
  Arena& scratch() { return scratch_; }
  int slots() const { return static_cast<int>(slots_.size()); }
  int slots_of(int chunk) const { return static_cast<int>(chunk_slots_[chunk].size()); }
  /// Returns the number of buffers for messages from other stages.
  int inboxes() const { return messages_.buffers(); }
  /// Returns the peak usage so far, in bytes, of the chunk's slot that has used the most. After a step, it equals the
  /// planned value.
  std::size_t slot_peak(int chunk = 0) const;
  std::size_t scratch_peak() const { return scratch_.peak(); }
  /// offloaded_layers() returns the number of offloaded layers in all slots. offloaded_peak() returns the most bytes
  /// that one offloaded layer's activations have used so far.
  int offloaded_layers() const;
  std::size_t offloaded_peak() const;

 private:
  /// A micro-batch's memory in one chunk, from its forward to its backward.
  struct Slot {
    Arena memory;
    Chunk::Cache cache;
    std::unique_ptr<ActivationOffload> offload = {};  // null if no layers are offloaded
    Tensor input = {}, output = {};                   // hidden states: from the previous chunk, for the next chunk
    Tensor dout = {}, dinput = {};                    // gradients with respect to output and input
    Work send = {};                                   // of the output, which must not change until it is done
  };

  /// Runs an action, or two that are one part, on a micro-batch.
  using PartBody = std::function<void(const Batch& batch, Tensor losses)>;

  Slot& slot_of(const Action& action);
  bool begins_pass(const StepSchedule& schedule, std::size_t index) const;
  void run_as_graph(const Action& action, StepGraphs::Part part, const BatchBuffers& buffers, const PartBody& run_part);
  StepGraphs::Part part_of(const Action& action, bool is_pass, bool is_last);
  void restore_outputs(const StepGraphs::Part& part, Slot& slot);
  void run(const Action& action, Slot& slot, Ctx& ctx, const Batch& batch, Tensor losses, Tensor loss_sums);
  void clear_slots();
  void clear_slot(Slot& slot);
  void prepare(const Action& action, Slot& slot, const Batch& batch);
  void make_offloads(std::size_t range_bytes);
  bool turns_before(const Action& action) const { return stage_.places.turns_before(stage_.place(action.chunk)); }
  void pass_gradient(const Action& action, const Slot& slot, const Batch& batch);
  void start_next_receive(const StepSchedule& schedule, std::size_t index, const BatchBuffers& buffers);
  Ctx context(Slot& slot, bool training);

  Stage& stage_;
  Stream& stream_;
  const ProcessGroups& groups_;
  StepSchedule schedule_;
  ParamOwner* params_;
  const StepState* step_;
  std::vector<std::vector<std::size_t>> chunk_slots_;  // by chunk: slots that its micro-batches use in turn
  Buffer slot_memory_;                                 // all slots, one after another
  std::unique_ptr<Stream> copies_;                     // for copying offloaded layers
  Buffer ring_memory_, offload_memory_;                // ranges for offloaded layers: in device memory, in host memory
  std::vector<Slot> slots_;
  StageMessages messages_;
  Arena scratch_;
  // Set only with graphs:
  StepGraphs* graphs_ = nullptr;
  ParamTraffic* traffic_ = nullptr;
  std::optional<BatchBuffers> slot_batches_;  // each slot's micro-batch
  struct PartOutputs {
    Tensor output, dinput;  // as in the slot after the capture
    ParamTraffic::PartState state;
  };
  std::map<StepGraphs::Part, PartOutputs> part_outputs_;
};

}  // namespace mtl
