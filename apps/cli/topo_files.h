// A layout of ranks for other programs: JSON, and Open MPI's rankfile.
#pragma once

#include "base/json.h"
#include "cli/topo_report.h"

namespace mtl {

/// Returns the layout in the schema of mtl-topo(1). Its `version` changes when the meaning of a field changes.
Json topo_json(const TopoReport& report);

/// Returns "rank 0=host slot=0" lines for mpirun --rankfile. Without --hosts, a single node is "localhost"; several are
/// relative to the job's allocation: +n0, +n1. A slot is a core, or a range of cores, counted from 0 on each node.
std::string topo_rankfile(const TopoReport& report);

}  // namespace mtl
