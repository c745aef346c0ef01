// Executes a schedule's actions on a stage: the forward passes, backward passes and messages of a training step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "comm/operation_label.h"
#include "device/memory.h"
#include "engine/memory_plan.h"
#include "engine/stage.h"
#include "engine/step_graphs.h"
#include "layout/schedule.h"
#include "optim/grad_sync.h"

namespace mtl {

/// Memory for the micro-batches of one step, and for the losses of their tokens.
class BatchBuffers {
 public:
  BatchBuffers(Device device, const RunShape& shape, Space space = Space::device);
  /// Bytes of one micro-batch.
  static std::size_t bytes(const RunShape& shape);
  const Batch& batch(int micro_batch) const { return batches_[micro_batch]; }
  /// (B, T) f32, written by the backward of the last stage, and by evaluation.
  Tensor losses(int micro_batch) const { return losses_[micro_batch]; }
  /// Copies all micro-batches from buffers in Space::host, as mtl::copy_from_pinned() does.
  void copy_from_pinned(Stream& stream, const BatchBuffers& host) const;
  /// Copies a micro-batch from other buffers on the same device.
  void copy(Stream& stream, int micro_batch, const BatchBuffers& from, int from_micro_batch) const;

 private:
  Tensor part(int micro_batch) const;

  std::int64_t part_bytes_;
  Buffer memory_;
  std::vector<Batch> batches_;
  std::vector<Tensor> losses_;
};

class Pipeline {
 public:
  /// Allocates slots, message buffers and scratch as planned. `schedule` is that of the largest step. Units lease their
  /// parameters from `params`, if not null. Gradients are scaled by the loss scale of `step`, in the device's memory,
  /// if not null. `stage`, `stream`, `groups`, `params` and `step` must outlive this.
  Pipeline(Stage& stage, Stream& stream, const ProcessGroups& groups, StepSchedule schedule, const MemoryPlan& plan,
           ParamOwner* params = nullptr, const StepState* step = nullptr);

  /// Makes train() run its actions as CUDA graphs from now on, with batches in buffers of the slots, except for
  /// micro-batches for which sync.overlaps() is true. Messages between stages are not part of the graphs. `sync` must
  /// be the constructor's `params`, and `shape` the plan's; `graphs` and `sync` must outlive this.
  void use_graphs(StepGraphs& graphs, GradSync& sync, const RunShape& shape);
  /// Computes the gradients of the micro-batches in `buffers`, into the parameters' store. The last stage also writes
  /// the losses of all tokens to `buffers` (with graphs to buffers of the slots), and adds their weighted sum to
  /// `loss_sum`, (1) f64, if given. `progress`, if not null, receives the current micro-batch, for error messages.
  /// `schedule`, if not null, replaces the constructor's for a step of fewer micro-batches.
  void train(const BatchBuffers& buffers, OperationProgress* progress = nullptr, const StepSchedule* schedule = nullptr,
             Tensor loss_sum = {});
  /// Evaluates one micro-batch without dropout. Collective over the stages; the last one writes the losses of all
  /// tokens to `losses`.
  void evaluate(const Batch& batch, Tensor losses);
  Arena& scratch() { return scratch_; }
  int slots() const { return static_cast<int>(slots_.size()); }
  /// Number of buffers for messages from other stages.
  int inboxes() const;
  /// The peak use of one slot so far, in bytes; equals the plan's after a step.
  std::size_t slot_peak() const;
  std::size_t scratch_peak() const { return scratch_.peak(); }
  /// The number of offloaded layers in all slots, and the most bytes that the activations of one of them have used so
  /// far.
  int offloaded_layers() const;
  std::size_t offloaded_peak() const;

 private:
  /// Memory of one micro-batch between its forward and its backward, in one chunk.
  struct Slot {
    Arena memory;
    Chunk::Cache cache;
    std::unique_ptr<ActivationOffload> offload = {};  // null where no layer is offloaded
    Tensor input = {}, output = {};                   // hidden states from the previous chunk, and for the next one
    Tensor dout = {}, dinput = {};                    // the gradients of output and input
    std::vector<Work> sends = {};  // of output and dinput, which must not change until these are done
  };

  /// The buffers in which a chunk receives hidden states, or their gradients, from another stage. Micro-batches take
  /// the buffers in turn: the next message arrives while the current one is in use.
  struct Inbox {
    int first = 0;                 // index of its first buffer in message_memory_
    std::vector<Work> sends = {};  // by buffer: the send after which it may be overwritten
    int posted = -1;               // the micro-batch of the latest receive
    Work receive = {};             // the latest receive
  };

  Slot& slot_of(const Action& action);
  void run_as_graph(const Action& action, bool is_last, Ctx& ctx, const BatchBuffers& buffers, Tensor loss_sum);
  StepGraphs::Part part_of(const Action& action, bool is_last);
  void restore_outputs(const StepGraphs::Part& part, Slot& slot);
  void run(const Action& action, Slot& slot, Ctx& ctx, const Batch& batch, Tensor losses, Tensor loss_sum);
  void clear_slots();
  void finish_sends(Slot& slot);
  void clear_slot(Slot& slot);
  void make_offloads(std::size_t range_bytes);
  Inbox make_inbox(ActionKind kind, std::size_t chunk, std::size_t buffers) const;
  Inbox& inbox_of(const Action& action);
  Tensor buffer_of(const Ctx& ctx, const Action& action, const Batch& batch);
  void start_receive(const Ctx& ctx, const Action& action, const Batch& batch);
  void start_next_receive(const StepSchedule& schedule, std::size_t index, const Ctx& ctx, const BatchBuffers& buffers);
  Tensor receive(const Ctx& ctx, const Action& action, const Batch& batch);
  void send(Slot& slot, Tensor tensor, const Action& action);
  Ctx context(Slot& slot, bool training);

  Stage& stage_;
  Stream& stream_;
  const ProcessGroups& groups_;
  StepSchedule schedule_;
  ParamOwner* params_;
  const StepState* step_;
  std::vector<std::vector<std::size_t>> chunk_slots_;  // the slots that a chunk's micro-batches take in turn
  Buffer slot_memory_;                                 // one slot after another
  std::unique_ptr<Stream> copies_;                     // for the copies of offloaded layers
  Buffer ring_memory_, offload_memory_;                // ranges of offloaded layers: on the device, on the host
  std::vector<Slot> slots_;
  std::size_t hidden_bytes_;
  Buffer message_memory_;                  // one inbox after another
  std::vector<Inbox> inputs_, gradients_;  // by chunk
  Arena scratch_;
  StepGraphs* graphs_ = nullptr;
  GradSync* sync_ = nullptr;                  // with graphs
  std::optional<BatchBuffers> slot_batches_;  // with graphs: the micro-batch of each slot
  struct PartOutputs {
    Tensor output, dinput;             // of the slot
    std::vector<std::size_t> reduced;  // buckets that GradSync::join_reductions() returned
  };
  std::map<StepGraphs::Part, PartOutputs> part_outputs_;
};

}  // namespace mtl
