// Writes a rank layout for other programs: as JSON, or as a rankfile for Open MPI.
#pragma once

#include "base/json.h"
#include "topo/report.h"

namespace mtl {

/// Returns the layout in mtl-topo(1)'s schema. `version` changes when a field's meaning does.
Json topo_json(const TopoReport& report);

/// Returns "rank 0=host slot=0" lines for mpirun --rankfile. Without --hosts, a single node is "localhost", and several
/// are relative to the job's allocation: +n0, +n1. A slot is a core, or a range of cores, numbered from 0 on each node.
std::string topo_rankfile(const TopoReport& report);

}  // namespace mtl
