// What a run takes of every rank of a layout. Most ranks take the same, so one of each kind is planned.
#pragma once

#include <vector>

#include "engine/memory_plan.h"

namespace mtl {

/// Ranks that take the same, to the byte and to the operation.
struct RankPlan {
  std::vector<int> ranks;  // rising
  MemoryPlan plan;
};

/// The plans of a training run for all ranks of shape.layout.grid, in the order of their first ranks;
/// shape.layout.rank does not count. Throws Error(usage) when the layers cannot be split over the stages.
std::vector<RankPlan> plan_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape);

}  // namespace mtl
