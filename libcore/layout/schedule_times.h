// The time of each action of a pipeline schedule, and the share of time that stages wait.
//
// An action starts when its stage has finished the one before, and its input is there: a forward needs the forward of
// the chunk before, a backward the backward of the chunk after. Communication takes no time. Times are in whatever unit
// the durations are.
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
  double ideal = 0;                          // the work of one stage: the total if no stage waited
  /// Waiting over work: (stages - 1) / m for GPipe and 1F1B, divided by the chunks when interleaved.
  double bubble() const { return (total - ideal) / ideal; }
};

/// `stages` holds the actions of every stage, all of `chunks` chunks. Throws Error(failure) when they wait for one
/// another forever.
ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, int chunks,
                             const ActionDurations& durations = {});

}  // namespace mtl
