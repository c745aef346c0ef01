// Values that change from step to step. They are in device memory, and operators read them through a pointer, so that a
// captured step (a CUDA graph) reads new values without a new capture. The host sends StepInputs before a step and
// receives the StepReport after it. (Sample indices are not part of the StepState; they are in the batches.)
#pragma once

#include <array>
#include <cstdint>

#include "device/event.h"
#include "device/memory.h"
#include "device/stream.h"

namespace mtl {

/// From host to device, once per step.
struct StepInputs {
  std::int64_t step = 0;    // number of optimizer steps started; 1 in the first step
  double lr = 0;            // of this step
  double weight_decay = 0;  // of this step
  double loss_scale = 1;    // gradients are multiplied by it
  // Nonzero if the other values assume that the previous step, whose report the host has not read yet, makes its
  // update. If it does not, this step makes no update either.
  std::int32_t assumes_update = 0;
};

/// From device to host, once per step.
struct StepReport {
  double loss_sum = 0;    // sum_losses() adds to it
  double clip_scale = 1;  // the update multiplies gradients by this factor
  double grad_norm = 0;   // global, before clipping, divided by the loss scale
  // Nonzero if the step makes no update, because the norm is not finite or because the step assumes an update that was
  // not made.
  std::int32_t found_inf = 0;
  // Element counts, among the elements that this rank updates. nonzero_updates: the update is not zero. lost_updates:
  // the update is not zero, but the stored weight does not change. lost_copies: the main weight changes, but the copy
  // that layers read does not.
  std::int64_t nonzero_updates = 0, lost_updates = 0, lost_copies = 0;
};

struct StepState : StepInputs, StepReport {};

/// A run's StepState. On cuda, inputs and reports pass through pinned memory, so that copying them does not block the
/// host.
class StepMemory {
 public:
  /// Maximum number of reports in flight.
  static constexpr int kReports = 2;

  explicit StepMemory(Device device);
  static constexpr std::size_t bytes() { return sizeof(StepState); }
  /// Bytes of pinned memory.
  static std::size_t host_bytes(Device device) { return device == Device::cpu ? 0 : kReports * sizeof(StepState); }

  /// Returns the address that operators read and write.
  StepState* on_device() const { return reinterpret_cast<StepState*>(memory_.data()); }
  /// loss_sum as a tensor, (1) f64.
  Tensor loss_sum() const;
  /// Sends the next step's inputs. Waits only until the inputs from two steps ago have been copied.
  void send(Stream& stream, const StepInputs& inputs);
  /// Starts copying the report for all commands enqueued on the stream so far. Returns the report's number, for
  /// read_report(). At most kReports reports may be unread.
  int start_report(Stream& stream);
  /// Waits for the copy of report `number`, and returns it.
  StepReport read_report(int number) const;
  /// Waits for all commands on the stream, and returns their report.
  StepReport receive(Stream& stream) { return read_report(start_report(stream)); }

 private:
  StepState& on_host(int number) const;

  Buffer memory_, pinned_;
  mutable std::array<StepState, kReports> own_;  // if no memory is pinned
  std::array<Event, kReports> sent_, reported_;
  int input_slot_ = 0, report_slot_ = 0;
};

}  // namespace mtl
