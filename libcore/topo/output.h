// The formats in which mtl-topo writes a rank layout.
#pragma once

#include <string>

#include "base/json.h"
#include "chart/terminal.h"
#include "topo/report.h"

namespace mtl {

/// Returns a picture, tables, and the pipeline schedule over time. Each section is made from the report by one
/// function. Empty sections are omitted.
std::string topo_text(const TopoReport& report, const TerminalOptions& terminal);

/// Draws the ranks as a grid of stages and replicas, with a box around each node. Folds the drawing into bands of at
/// most `terminal.width` columns, and omits replicas beyond about 60 lines. Uses UTF-8, which topo_text() converts to
/// ASCII if needed.
std::string draw_ranks(const TopoReport& report, const TerminalOptions& terminal);

/// Draws the schedule over time, with a line for each stage and a cell for each unit of time.
std::string draw_schedule(const TopoReport& report, const TerminalOptions& terminal);

/// Returns a figure: the rank grid, boxed by node, and the schedule over time.
std::string topo_svg(const TopoReport& report);

/// Returns the layout in mtl-topo(1)'s schema. `version` changes when a field's meaning does.
Json topo_json(const TopoReport& report);

/// Returns "rank 0=host slot=0" lines for mpirun --rankfile. Without --hosts, a single node is "localhost", and several
/// are relative to the job's allocation: +n0, +n1. A slot is a core, or a range of cores, numbered from 0 on each node.
std::string topo_rankfile(const TopoReport& report);

}  // namespace mtl
