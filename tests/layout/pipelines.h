// Lists pipelines of given sizes, for the schedule tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/enum_index.h"
#include "base/str.h"
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

/// Returns text such as "F0 F1 B0 ...". With multiple chunks, each word also contains the chunk: "F0.1".
///   F, B, W  forward, backward, weight
///   rF, sF   receive, send activations
///   rB, sB   receive, send gradients
inline std::string schedule_text(const std::vector<Action>& actions) {
  constexpr const char* kNames[] = {"F", "B", "W", "rF", "sF", "rB", "sB"};
  bool several = std::any_of(actions.begin(), actions.end(), [](const Action& action) { return action.chunk > 0; });
  std::vector<std::string> words;
  for (const Action& action : actions) {
    words.push_back(cat(kNames[enum_index(action.kind)], action.micro_batch));
    if (several) words.back() += cat(".", action.chunk);
  }
  return join(words, " ");
}

}  // namespace mtl::test
