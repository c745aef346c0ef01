// A chart as an SVG figure: a title, a legend, and panels with axes, ticks and a grid that share one x axis.
//
// The colors are those of Okabe and Ito (2008), which color-blind readers can distinguish. If there are more runs than
// colors, dashes distinguish the remaining runs. Lines are thinned to about 2000 points and keep their extremes. Text
// uses the viewer's sans-serif font. Text widths are overestimated, so that no text overlaps.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

/// Returns the whole SVG document. The height grows with the number of panels and with the number of legend rows.
std::string svg_chart(const Chart& chart);

}  // namespace mtl
