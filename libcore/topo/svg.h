// Draws a rank layout as an SVG figure: the rank grid, boxed by node, and the schedule over time.
#pragma once

#include <string>

#include "topo/report.h"

namespace mtl {

std::string topo_svg(const TopoReport& report);

}  // namespace mtl
