#include "train/step_queue.h"

#include <utility>

namespace mtl {

std::int64_t StepQueue::samples() const {
  std::int64_t samples = 0;
  for (const GivenStep& step : steps_) samples += step.samples;
  return samples;
}

void StepQueue::push(Stream& stream, StepMemory& memory, GivenStep step) {
  step.report = memory.start_report(stream);
  steps_.push_back(std::move(step));
}

GivenStep StepQueue::pop(const StepMemory& memory, StepReport& report) {
  report = memory.read_report(steps_.front().report);
  GivenStep step = std::move(steps_.front());
  steps_.pop_front();
  return step;
}

std::vector<GivenStep> StepQueue::drop(const StepMemory& memory) {
  std::vector<GivenStep> dropped;
  for (StepReport unused; !steps_.empty();) dropped.push_back(pop(memory, unused));
  return dropped;
}

}  // namespace mtl
