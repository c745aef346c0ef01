// The time of each action of a pipeline schedule, and the pipeline bubble.
//
// An action starts when its stage has finished the previous one and its input exists: a forward needs the forward of
// the previous chunk, a backward its own forward and the backward of the next chunk. All other actions take no time.
// Times have the unit of the durations.
#pragma once

#include <vector>

#include "layout/schedule.h"

namespace mtl {

/// Times of one chunk and one micro-batch.
struct ActionDurations {
  double forward = 1;
  double backward = 2;
};

struct TimeSpan {
  double start = 0, end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<TimeSpan>> spans;  // [stage][action]
  double total = 0;                          // from the first start to the last end
  double ideal = 0;                          // the work of the busiest stage: the total if that stage never waited
  /// Waiting time over work: (stages - 1) / m for GPipe and 1F1B, divided by the chunks when interleaved.
  double bubble() const { return (total - ideal) / ideal; }
};

/// `stages` holds the actions of every stage; each has `chunks` chunks. Throws Error(failure) when the stages deadlock.
ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, int chunks,
                             const ActionDurations& durations = {});

}  // namespace mtl
