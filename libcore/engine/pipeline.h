// Executes a schedule's actions on a stage: the heart of a training step.
#pragma once

#include <vector>

#include "device/memory.h"
#include "engine/memory_plan.h"
#include "engine/stage.h"
#include "layout/schedule.h"

namespace mtl {

/// Memory for the micro-batches of one step, and for the losses of their tokens.
class BatchBuffers {
 public:
  BatchBuffers(Device device, const RunShape& shape);
  /// Bytes of one micro-batch.
  static std::size_t bytes(const RunShape& shape);
  const Batch& batch(int micro_batch) const { return batches_[static_cast<std::size_t>(micro_batch)]; }
  /// (B, T) f32, written by forward.
  Tensor losses(int micro_batch) const { return losses_[static_cast<std::size_t>(micro_batch)]; }

 private:
  Buffer memory_;
  std::vector<Batch> batches_;
  std::vector<Tensor> losses_;
};

class Pipeline {
 public:
  /// Allocates slots and scratch as planned. Everything handed in must outlive it.
  Pipeline(Stage& stage, Stream& stream, const ProcessGroups& groups, const MemoryPlan& plan);

  /// One training step over the micro-batches in `buffers`: losses of every token, and gradients in the parameters'
  /// store. Micro-batch m's first sample has the global number first_sample + m * samples_apart (the dropout counter).
  void train(const std::vector<Action>& actions, const BatchBuffers& buffers, StepState* state,
             std::int64_t first_sample, std::int64_t samples_apart);
  /// Losses of every token of one micro-batch, dropout off.
  void evaluate(const Batch& batch, Tensor losses, StepState* state);
  Arena& scratch() { return scratch_; }
  /// The most that was in use so far, against the plan.
  std::size_t slot_peak() const;

 private:
  Ctx context(Arena& slot, StepState* state, bool training);

  Stage& stage_;
  Stream& stream_;
  const ProcessGroups& groups_;
  std::vector<Arena> slots_;
  Arena scratch_;
  WeightGradQueue weight_grads_;
  std::vector<Chunk::Cache> caches_;  // one per slot
};

}  // namespace mtl
