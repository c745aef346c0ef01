// What changes from step to step. It lives where operators run and is read through a pointer, so that a captured
// step (a CUDA graph) sees new values without being captured again. The host sends StepInputs before a step and
// receives the StepReport after it. (The numbers of a step's samples travel in its batches.)
#pragma once

#include <array>
#include <cstdint>

#include "device/event.h"
#include "device/memory.h"
#include "device/stream.h"

namespace mtl {

/// Host to device, once a step.
struct StepInputs {
  std::int64_t step = 0;    // optimizer steps begun, 1 in the first
  double lr = 0;            // of this step
  double weight_decay = 0;  // of this step
  double loss_scale = 1;    // gradients carry this factor
  // The other values are right if the step before made its update, whose report the host had not read yet: without that
  // update this step makes none either.
  std::int32_t assumes_update = 0;
};

/// Device to host, once a step.
struct StepReport {
  double loss_sum = 0;         // of the losses that were added: sum_losses
  double clip_scale = 1;       // gradients are multiplied by it in the update
  double grad_norm = 0;        // global, before clipping, loss scale taken out
  std::int32_t found_inf = 0;  // the norm is not finite, or the step assumes an update that was not made: it makes none
  // Elements that this rank owns and updates: those whose update is not zero; of these, those whose stored weight the
  // update leaves as it is; and those whose main weight changes while the copy that layers read does not.
  std::int64_t nonzero_updates = 0, lost_updates = 0, lost_copies = 0;
};

struct StepState : StepInputs, StepReport {};

/// The StepState of a run. Inputs and reports pass through pinned memory on cuda, so that the host waits for neither.
class StepMemory {
 public:
  /// Reports that may be on their way at a time.
  static constexpr int kReports = 2;

  explicit StepMemory(Device device);
  static constexpr std::size_t bytes() { return sizeof(StepState); }
  /// Of pinned memory.
  static std::size_t host_bytes(Device device) { return device == Device::cpu ? 0 : kReports * sizeof(StepState); }

  /// For operators.
  StepState* on_device() const { return reinterpret_cast<StepState*>(memory_.data()); }
  /// Where loss_sum is, (1) f64.
  Tensor loss_sum() const;
  /// Waits for nothing but the copy of the inputs before the last ones.
  void send(Stream& stream, const StepInputs& inputs);
  /// Starts to copy the report of what the stream was given; returns what read_report() takes. At most kReports are
  /// started and not read.
  int start_report(Stream& stream);
  /// Waits until the report is there.
  StepReport read_report(int number) const;
  /// Waits for everything that the stream was given.
  StepReport receive(Stream& stream) { return read_report(start_report(stream)); }

 private:
  StepState& on_host(int number) const;

  Buffer memory_, pinned_;
  mutable std::array<StepState, kReports> own_;  // where no memory is pinned
  std::array<Event, kReports> sent_, reported_;
  int last_sent_ = 0, last_started_ = 0;
};

}  // namespace mtl
