// The memory and work of a run on every rank of a layout. Most ranks have equal plans, so we plan only one rank of each
// kind.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/collectives.h"
#include "engine/memory_plan.h"

namespace mtl {

/// Ranks with equal plans: the same bytes and operations. Of replicas that own the same elements, only the first reads
/// them for the gradient norm. All are planned as if they did, which takes at least as much memory.
struct RankPlan {
  std::vector<int> ranks;  // ascending
  MemoryPlan plan;
  std::vector<Collectives> collectives = {};  // of the first rank, in reports; plan_ranks() leaves them out
};

/// Returns the distinct plans for a training run on all ranks of shape.layout.grid, ordered by the first rank that has
/// each plan. Ignores shape.layout.rank. Throws Error(usage) if the layers cannot be distributed over the stages.
std::vector<RankPlan> plan_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape);

/// Returns plans among which is one of the ranks that need the most memory. Its cost does not depend on the number of
/// ranks, but for a pass over the owned ranges. `schedule` is pipeline_schedule() of shape.layout. Ignores
/// shape.layout.rank.
std::vector<MemoryPlan> plan_largest_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape,
                                           const std::vector<std::vector<Action>>& schedule);

/// Returns the plan for the ranks that need the most memory: device memory if they compute on GPUs, otherwise host
/// memory.
const RankPlan& largest_plan(const std::vector<RankPlan>& plans);

/// A category of memory, or the total.
struct MemoryPart {
  const char* name;     // in JSON
  const char* heading;  // in tables and charts
  std::size_t bytes;
};
/// Returns a rank's memory in `spaces` by category; the last element is the total. Main weights, the
/// copy of saves and the snapshot are omitted if they use no memory; of files, all that have none are.
std::vector<MemoryPart> memory_parts(const MemoryPlan& plan,
                                     const std::vector<Space>& spaces = {Space::device, Space::host});

}  // namespace mtl
