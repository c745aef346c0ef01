// Simulates the times of all actions of a pipeline schedule, and computes the pipeline bubble.
//
// An action starts once its stage has finished the previous action and all inputs of the action are ready. A forward
// needs the forward of the previous chunk. A backward needs the forward of the same chunk and the backward of the next
// chunk. All other actions take no time. Times have the same unit as the durations.
#pragma once

#include <vector>

#include "layout/schedule.h"

namespace mtl {

/// The durations of the forward and the backward of one micro-batch in one chunk.
struct ActionDurations {
  double forward = 1;
  double backward = 2;
};

struct TimeSpan {
  double start = 0, end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<TimeSpan>> spans;  // [stage][action]
  double total = 0;                          // from the start of the first action to the end of the last
  double ideal = 0;                          // work of the busiest stage: the total if that stage never waited
  /// Returns the waiting time divided by the working time. For m micro-batches, the result is (stages - 1) / m with
  /// GPipe and 1F1B; interleaving divides this value by the number of chunks.
  double bubble() const { return (total - ideal) / ideal; }
};

/// `stages` holds the actions of every stage. Each stage has `chunks` chunks. Throws Error(failure) if the stages
/// deadlock.
ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, int chunks,
                             const ActionDurations& durations = {});

}  // namespace mtl
