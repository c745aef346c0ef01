// Lists pipelines of given sizes, for the schedule tests.
#pragma once

#include "layout/schedule.h"

namespace mtl::test {

struct PipelineCase {
  int stages = 1, chunks = 1, micro_batches = 1, group = 0;
  std::vector<ActionDurations> durations = {};  // by position

  Layout layout(ScheduleKind kind) const {
    Layout out;
    out.grid = RankGrid({.pipeline = stages});
    out.schedule = kind;
    out.chunks = chunks;
    out.group = group;
    out.durations = durations;
    return out;
  }
  Places places(ScheduleKind kind = ScheduleKind::one_forward_one_backward) const { return layout(kind).places(); }
  std::vector<std::vector<Action>> schedule(ScheduleKind kind) const {
    return pipeline_schedule(layout(kind), micro_batches);
  }
};

/// The durations of places with so many layers. The first also has the embedding, the last the output layer.
inline std::vector<ActionDurations> durations_of(const std::vector<int>& layers, double head) {
  std::vector<ActionDurations> out;
  for (int count : layers) out.push_back({1.0 * count, 1.2 * count, 0.9 * count});
  out.front().weight += 0.01;
  out.back().backward += head;
  return out;
}

}  // namespace mtl::test
