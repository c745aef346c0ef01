// What changes from step to step. It lives where operators run and is read through a pointer, so that a captured
// step (a CUDA graph) sees new values without being captured again. The host sends StepInputs before a step and
// receives the StepReport after it. (The numbers of a step's samples travel in its batches.)
#pragma once

#include <cstdint>

#include "device/memory.h"
#include "device/stream.h"

namespace mtl {

/// Host to device, once a step.
struct StepInputs {
  std::int64_t step = 0;    // optimizer steps begun, 1 in the first
  double lr = 0;            // of this step
  double weight_decay = 0;  // of this step
  double loss_scale = 1;    // gradients carry this factor
};

/// Device to host, once a step.
struct StepReport {
  double loss_sum = 0;         // of the losses that were added: sum_losses
  double clip_scale = 1;       // gradients are multiplied by it in the update
  double grad_norm = 0;        // global, before clipping, loss scale taken out
  std::int32_t found_inf = 0;  // the norm is not finite: the update is skipped
  // Elements that this rank owns and updates: those whose update is not zero; of these, those whose stored weight the
  // update leaves as it is; and those whose main weight changes while the copy that layers read does not.
  std::int64_t nonzero_updates = 0, lost_updates = 0, lost_copies = 0;
};

struct StepState : StepInputs, StepReport {};

/// The StepState of a run.
class StepMemory {
 public:
  explicit StepMemory(Device device) : memory_(device, bytes()) {}
  static constexpr std::size_t bytes() { return sizeof(StepState); }

  /// For operators.
  StepState* on_device() const { return reinterpret_cast<StepState*>(memory_.data()); }
  /// Where loss_sum is, (1) f64.
  Tensor loss_sum() const;
  void send(Stream& stream, const StepInputs& inputs) const;
  /// Waits for everything that the stream was given.
  StepReport receive(Stream& stream) const;

 private:
  Buffer memory_;
};

}  // namespace mtl
