// Memory and work of each rank in a step, for mtl-topo and mtl-train --dry-run: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/rank_plans.h"

namespace mtl {

/// Bytes by category and "total".
Json memory_json(const MemoryPlan& plan);
/// A list: for each kind of ranks their numbers, parameters, memory, FLOPs and bytes sent.
Json rank_plans_json(const std::vector<RankPlan>& plans);
/// Two tables, memory and work of a step, a line for ranks that read the same; and which ranks need most.
std::string describe_rank_plans(const std::vector<RankPlan>& plans);

}  // namespace mtl
