// A rank layout as text: a picture, tables, and the pipeline schedule over time.
//
// Each section is made from the report by one function. Empty sections are omitted.
#pragma once

#include <string>

#include "chart/terminal.h"
#include "topo/report.h"

namespace mtl {

std::string topo_text(const TopoReport& report, const TerminalOptions& terminal);

/// Draws the ranks as a grid of stages and replicas, with a box around each node. Folds the drawing into bands of at
/// most `terminal.width` columns, and omits replicas beyond about 60 lines. Uses UTF-8, which topo_text() converts to
/// ASCII if needed.
std::string draw_ranks(const TopoReport& report, const TerminalOptions& terminal);

/// Draws the schedule over time, with a line for each stage and a cell for each unit of time.
std::string draw_schedule(const TopoReport& report, const TerminalOptions& terminal);

}  // namespace mtl
