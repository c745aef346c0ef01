// A layout of ranks as text: a picture, tables, and the pipeline's schedule over time.
//
// One function makes each section from the report; an empty section is left out.
#pragma once

#include <string>

#include "chart/terminal.h"
#include "cli/topo_report.h"

namespace mtl {

std::string topo_text(const TopoReport& report, const TerminalOptions& terminal);

/// Ranks as a grid of stages and replicas, in boxes of nodes. Folded so that it has at most `terminal.width` columns
/// and about 60 lines. UTF-8, which topo_text turns into ASCII if needed.
std::string draw_ranks(const TopoReport& report, const TerminalOptions& terminal);

/// The schedule over time: a line for each stage, a cell for each unit of time.
std::string draw_schedule(const TopoReport& report, const TerminalOptions& terminal);

}  // namespace mtl
