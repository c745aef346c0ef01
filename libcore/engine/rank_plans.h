// Memory and work of a run on every rank of a layout. Most ranks have equal plans, so only one rank of each kind is
// planned.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/memory_plan.h"

namespace mtl {

/// Ranks with equal plans: the same bytes and operations.
struct RankPlan {
  std::vector<int> ranks;  // ascending
  MemoryPlan plan;
};

/// Returns the plans of a training run for all ranks of shape.layout.grid, in the order of their first ranks;
/// shape.layout.rank is ignored. Throws Error(usage) if the layers cannot be split over the stages.
std::vector<RankPlan> plan_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape);

/// Returns the plan of the ranks that need the most memory: GPU memory if they compute on GPUs, otherwise host memory.
const RankPlan& largest_plan(const std::vector<RankPlan>& plans);

/// A category of memory.
struct MemoryPart {
  const char* name;     // in JSON
  const char* heading;  // in tables and figures
  std::size_t bytes;
};
/// Returns the categories of a rank; the last is the total. Main weights and the snapshot are listed only if they
/// exist.
std::vector<MemoryPart> memory_parts(const MemoryPlan& plan);
/// Returns the categories of a rank in the memory of the device or of the host.
std::vector<MemoryPart> memory_parts(const MemoryPlan& plan, Space space);

}  // namespace mtl
