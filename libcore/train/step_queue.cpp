#include "train/step_queue.h"

namespace mtl {

std::int64_t StepQueue::samples() const {
  std::int64_t samples = 0;
  for (const EnqueuedStep& step : steps_) samples += step.samples;
  return samples;
}

void StepQueue::push(Stream& stream, StepMemory& memory, EnqueuedStep step) {
  step.report = memory.start_report(stream);
  steps_.push_back(step);
}

EnqueuedStep StepQueue::pop(const StepMemory& memory, StepReport& report) {
  report = memory.read_report(steps_.front().report);
  const EnqueuedStep step = steps_.front();
  steps_.pop_front();
  return step;
}

std::vector<EnqueuedStep> StepQueue::drop(const StepMemory& memory) {
  std::vector<EnqueuedStep> dropped;
  for (StepReport unused; !steps_.empty();) dropped.push_back(pop(memory, unused));
  return dropped;
}

}  // namespace mtl
