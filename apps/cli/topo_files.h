// A layout of ranks for other programs: JSON, and Open MPI's rankfile.
#pragma once

#include "base/json.h"
#include "cli/topo_report.h"

namespace mtl {

/// The schema is in mtl-topo(1); `version` changes when a field changes its meaning.
Json topo_json(const TopoReport& report);

/// "rank 0=host slot=0" lines for mpirun --rankfile. Nodes without names are "localhost", when there is one, or
/// relative to the job's allocation: +n0, +n1. A slot is a core, counted from 0 on each node.
std::string topo_rankfile(const TopoReport& report);

}  // namespace mtl
