// The steps that were given to the device and whose reports the host has not read.
//
// On the cpu there is one, done when it was given. On cuda the host gives step k + 1 before it reads the report of step
// k, so that the device never waits for the host. Then
//
//   step k + 1 is given as if step k made its update: its number, learning rate and loss scale follow from that. Where
//   step k makes none (its gradient is not finite), the device makes none in step k + 1 either
//   (StepInputs::assumes_update): the weights are those before step k. The host drops step k + 1, and gives it once
//   more with the right values after it has accounted for step k: the run is the same as if every report were read at
//   once.
//
//   What needs the state after a whole number of steps reads the reports of all steps first: a validation, a save, an
//   exit, the end of the run, an error of the data. After a step without an update reports are read at once, until a
//   step makes one: an fp16 run that looks for its loss scale repeats no step twice.
//
//   Log lines come a step later, with the figures of their own step. Signals are answered after the step that is under
//   way when the report of an earlier one is read.
//
// Ranks read the report of a step at the same point, and then exchange its totals on the host, while their devices
// compute the next step. All of them find the same norm, so all drop and repeat the same steps.
#pragma once

#include <deque>
#include <vector>

#include "train/step_totals.h"

namespace mtl {

struct GivenStep {
  const StepBatch* batch;
  StepInputs inputs;
  std::int64_t samples;  // of all ranks
  StepTotals totals;     // what the host knows of it
  int report = 0;        // StepMemory's number
};

class StepQueue {
 public:
  /// `late`: how many steps may be under way when the host continues with the next one, 0 or 1.
  explicit StepQueue(int late) : late_(late) {}

  int late() const { return late_; }
  int size() const { return static_cast<int>(steps_.size()); }
  bool empty() const { return steps_.empty(); }
  /// Of all steps in the queue.
  std::int64_t samples() const;
  /// Takes a step, all of whose commands were given to the stream, and starts its report's copy.
  void push(Stream& stream, StepMemory& memory, GivenStep step);
  /// Removes the oldest step; waits for its report.
  GivenStep pop(const StepMemory& memory, StepReport& report);
  /// Removes all steps, oldest first; waits until they are done.
  std::vector<GivenStep> drop(const StepMemory& memory);

 private:
  int late_;
  std::deque<GivenStep> steps_;
};

}  // namespace mtl
