// Steps that are enqueued on the device, but whose reports the host has not read yet.
//
// On the cpu, the queue holds one step, which is complete once it has been enqueued. On cuda, the host enqueues step k
// + 1 before it reads step k's report, so that the device never waits for the host:
//
// - Step k + 1 assumes that step k made its update, because its number, learning rate and loss scale depend on that. If
//   step k makes no update (its gradient is not finite), the device does not make one in step k + 1 either
//   (StepInputs::assumes_update), and the weights stay as before step k. The host drops step k + 1, accounts for step
//   k, and enqueues step k + 1 again with the right values. The run is the same as if every report were read
//   immediately.
// - Validations, saves, exits, the end of the run and data errors need a consistent state, so the host first reads the
//   reports of all steps. After a step without an update, it reads reports immediately until a step makes one. An fp16
//   run that is still searching for its loss scale therefore does not repeat any step twice.
// - Log lines appear one step late. Signals take effect after the step that is in flight when an earlier report is
//   read.
//
// All ranks read a step's report at the same point, and then exchange its totals on the host while their devices
// compute the next step. They all find the same norm, so they all drop and repeat the same steps.
#pragma once

#include <deque>

#include "train/step_totals.h"

namespace mtl {

struct EnqueuedStep {
  const StepBatch* batch;
  std::int64_t iteration;  // its number, from 1
  StepInputs inputs;
  std::int64_t samples;      // of all ranks
  bool sums_params = false;  // Optimizer::sum_params() follows the update
  StepTotals totals;         // what the host knows: tokens and waits
  int report = 0;            // its number in StepMemory
};

/// The steps in flight, oldest first.
using StepQueue = std::deque<EnqueuedStep>;

/// Returns the number of samples in all queued steps.
inline std::int64_t samples_of(const StepQueue& steps) {
  std::int64_t samples = 0;
  for (const EnqueuedStep& step : steps) samples += step.samples;
  return samples;
}

}  // namespace mtl
