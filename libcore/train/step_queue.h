// The steps that are enqueued on the device and whose reports the host has not read yet.
//
// On the cpu, the queue holds one step, which is complete when it has been enqueued. On cuda, the host enqueues step k
// + 1 before it reads the report of step k, so that the device never waits for the host:
//
//   Step k + 1 assumes that step k made its update, on which its number, learning rate and loss scale depend. If step k
//   makes none (its gradient is not finite), the device makes none in step k + 1 either (StepInputs::assumes_update):
//   the weights stay as before step k. The host drops step k + 1, accounts for step k, and enqueues step k + 1 again
//   with the right values: the run is the same as if every report were read at once.
//
//   Validations, saves, exits, the end of the run and errors of the data need a consistent state: the host first reads
//   the reports of all steps. After a step without an update, reports are read at once until a step makes one: an fp16
//   run that searches for its loss scale repeats no step twice.
//
//   Log lines appear a step later, with the figures of their own step. Signals take effect after the step that is in
//   flight when the report of an earlier one is read.
//
// Ranks read the report of a step at the same point, and then exchange its totals on the host, while their devices
// compute the next step. All of them find the same norm, so all drop and repeat the same steps.
#pragma once

#include <deque>
#include <vector>

#include "train/step_totals.h"

namespace mtl {

struct EnqueuedStep {
  const StepBatch* batch;
  StepInputs inputs;
  std::int64_t samples;  // of all ranks
  StepTotals totals;     // the figures that the host knows: tokens and waits
  int report = 0;        // its number in StepMemory
};

class StepQueue {
 public:
  /// `max_in_flight` is the number of steps that may be in flight when the host continues with the next step: 0 or 1.
  explicit StepQueue(int max_in_flight) : max_in_flight_(max_in_flight) {}

  int max_in_flight() const { return max_in_flight_; }
  int size() const { return static_cast<int>(steps_.size()); }
  bool empty() const { return steps_.empty(); }
  /// Returns the number of samples of all steps in the queue.
  std::int64_t samples() const;
  /// Adds a step whose commands are all enqueued on `stream`, and starts to copy the report of the step to the host.
  void push(Stream& stream, StepMemory& memory, EnqueuedStep step);
  /// Removes and returns the oldest step. Waits for the report of that step, and stores it in `report`.
  EnqueuedStep pop(const StepMemory& memory, StepReport& report);
  /// Removes and returns all steps, oldest first. Waits until they are complete.
  std::vector<EnqueuedStep> drop(const StepMemory& memory);

 private:
  int max_in_flight_;
  std::deque<EnqueuedStep> steps_;
};

}  // namespace mtl
