// A layout of ranks as text: a picture, tables, and the pipeline's schedule over time.
//
// Sections stand one under another, each made by a function of its own from the report; an empty one is left out.
#pragma once

#include <string>

#include "chart/terminal.h"
#include "cli/topo_report.h"

namespace mtl {

std::string topo_text(const TopoReport& report, const TerminalOptions& look);

/// Ranks as a grid of stages and replicas, in boxes of nodes. Folded so that it has at most `look.width` columns and
/// about 60 lines. UTF-8; topo_text makes ASCII of it where it must.
std::string draw_ranks(const TopoReport& report, const TerminalOptions& look);

/// A line for each stage, a column for each unit of time.
std::string draw_schedule(const TopoReport& report, const TerminalOptions& look);

}  // namespace mtl
