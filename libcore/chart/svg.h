// A chart as an SVG figure: a title, a legend, and panels with axes, ticks and a grid that share one x axis.
//
// The colors are those of Okabe and Ito (2008), which color-blind readers can distinguish; further runs differ by
// dashes. Lines are thinned to about 2000 points and keep their extremes. The text needs no font beyond the viewer's
// sans-serif; its widths are overestimated, so that no text overlaps.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

/// The whole SVG document. The height grows with the number of panels and of legend rows.
std::string svg_chart(const Chart& chart);

}  // namespace mtl
