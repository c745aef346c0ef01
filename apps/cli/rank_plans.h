// Memory and work of each rank in a step, for mtl-topo and mtl-train --dry-run: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/rank_plans.h"

namespace mtl {

/// Returns the bytes of each category, and "total".
Json memory_json(const MemoryPlan& plan);
/// Returns a list with an entry per plan: its ranks, parameters, memory, FLOPs and bytes sent.
Json rank_plans_json(const std::vector<RankPlan>& plans);
/// Returns a table of memory (on GPUs, one table for the GPU and one for the host) and a table of the work of a step.
/// Ranks with equal numbers share a row. Names the ranks that need the most memory.
std::string describe_rank_plans(const std::vector<RankPlan>& plans);

}  // namespace mtl
