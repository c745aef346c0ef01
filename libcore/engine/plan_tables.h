// Each rank's memory and work per step, for mtl-topo and mtl-train --dry-run: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/rank_plans.h"

namespace mtl {

/// Returns the bytes in each category, and "total".
Json memory_json(const MemoryPlan& plan);
/// The same for the bytes on the GPU; null on the CPU.
Json gpu_json(const MemoryPlan& plan);
/// The same for the bytes in files, without empty categories; null if there are none.
Json file_json(const MemoryPlan& plan);
/// Returns a list with an entry per plan: its ranks, parameters, memory, FLOPs, traffic and collectives.
Json rank_plans_json(const std::vector<RankPlan>& plans);
/// Returns a memory table: on GPUs, one for the GPU and one for the host; one for files, if there are any. Ranks with
/// equal numbers share a row. Says which ranks need the most memory.
std::string describe_rank_memory(const std::vector<RankPlan>& plans);
/// Returns the same, a table of the work per step, and one of the collectives, if the plans have any.
std::string describe_rank_plans(const std::vector<RankPlan>& plans);

}  // namespace mtl
