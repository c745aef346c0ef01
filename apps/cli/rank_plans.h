// Memory and work of each rank in a step, for mtl-topo and mtl-train --dry-run: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/rank_plans.h"

namespace mtl {

/// Bytes by category, and "total".
Json memory_json(const MemoryPlan& plan);
/// A list with an entry per plan: its ranks, parameters, memory, FLOPs and bytes sent.
Json rank_plans_json(const std::vector<RankPlan>& plans);
/// Tables of memory, by space if ranks compute on GPUs, and of work of a step; ranks whose rows are equal share one.
/// Names the ranks that need the most memory.
std::string describe_rank_plans(const std::vector<RankPlan>& plans);

}  // namespace mtl
