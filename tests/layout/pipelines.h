// Lists pipelines of given sizes, for the schedule tests.
#pragma once

#include "layout/schedule.h"

namespace mtl::test {

struct PipelineCase {
  int stages = 1, chunks = 1, micro_batches = 1, group = 0;

  Layout layout(ScheduleKind kind) const {
    Layout out;
    out.grid = RankGrid({.pipeline = stages});
    out.schedule = kind;
    out.chunks = chunks;
    out.group = group;
    return out;
  }
  Places places(ScheduleKind kind = ScheduleKind::one_forward_one_backward) const { return layout(kind).places(); }
  std::vector<std::vector<Action>> schedule(ScheduleKind kind) const {
    return pipeline_schedule(layout(kind), micro_batches);
  }
};

}  // namespace mtl::test
