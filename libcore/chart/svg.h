// A chart as an SVG figure: a title, a legend, and panels with axes, ticks and a grid that share one x axis.
//
// Color-blind readers can distinguish the colors, which are those of Okabe and Ito (2008). If there are more runs than
// colors, the remaining ones are dashed. Lines are thinned to about 2000 points but keep their extremes. Text uses the
// viewer's sans-serif font; its width is overestimated, so that no text overlaps.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

/// Returns the entire SVG document. Its height grows with the panels and legend rows.
std::string svg_chart(const Chart& chart);

}  // namespace mtl
