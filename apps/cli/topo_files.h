// Writes a layout of ranks for other programs: as JSON, or as a rankfile of Open MPI.
#pragma once

#include "base/json.h"
#include "cli/topo_report.h"

namespace mtl {

/// Returns the layout in the schema of mtl-topo(1). Its `version` changes when the meaning of a field changes.
Json topo_json(const TopoReport& report);

/// Returns "rank 0=host slot=0" lines for mpirun --rankfile. Without --hosts, a single node is "localhost"; several
/// nodes are relative to the allocation of the job: +n0, +n1. A slot is a core, or a range of cores, numbered from 0 on
/// each node.
std::string topo_rankfile(const TopoReport& report);

}  // namespace mtl
