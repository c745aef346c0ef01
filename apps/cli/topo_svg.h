// A layout of ranks as an SVG figure: the grid of ranks in the boxes of their nodes, and the schedule over time.
#pragma once

#include <string>

#include "cli/topo_report.h"

namespace mtl {

std::string topo_svg(const TopoReport& report);

}  // namespace mtl
