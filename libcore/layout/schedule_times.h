// Simulates when each action in a pipeline schedule runs, and computes the pipeline bubble.
//
// An action starts when its stage has finished the previous action and all of its inputs are ready. A forward needs the
// previous chunk's forward. A backward needs the same chunk's forward and the next chunk's backward. In a schedule
// without weight actions, a backward includes the weight gradients. Messages take no time. Times have the same unit as
// the durations.
#pragma once

#include <vector>

#include "layout/schedule.h"

namespace mtl {

struct TimeSpan {
  double start = 0, end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<TimeSpan>> spans;  // [stage][action]
  double total = 0;                          // from the first action's start to the last action's end
  double ideal = 0;                          // time the busiest stage works; equals total if it never waits
  /// Returns waiting time divided by working time. For m micro-batches, this is (stages - 1) / m with GPipe and 1F1B.
  /// Interleaving divides it by the number of chunks.
  double bubble() const { return (total - ideal) / ideal; }
};

/// `stages` contains the actions for every stage. `durations` are by position; empty: equal. Throws Error(failure) on
/// deadlock.
ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, const Places& places,
                             const std::vector<ActionDurations>& durations = {});

}  // namespace mtl
