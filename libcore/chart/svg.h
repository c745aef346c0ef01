// A chart as an SVG figure: a title, a legend, and panels with axes, ticks and a grid on one x axis.
//
// The colours are those of Okabe and Ito (2008), which colour-blind readers tell apart; when they are used up, dashes
// tell runs apart. Lines are thinned to about 2000 points, whose extremes stay. The text needs no font beyond the
// viewer's sans-serif; its widths are estimated, generously, so that nothing overlaps.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

/// The whole SVG document. The height grows with the number of panels and of legend rows.
std::string svg_chart(const Chart& chart);

}  // namespace mtl
