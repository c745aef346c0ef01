// What a chart shows: panels stacked on one x axis, each with lines and markers. NaN is a gap.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mtl {

struct Series {
  std::string name;  // markers from several runs may share a name, which the legend shows once, without a color
  std::vector<double> x;
  std::vector<double> y;    // as long as x
  std::size_t color = 0;    // color number; series of the same run share it
  bool is_markers = false;  // points without a line
  bool is_faint = false;    // drawn pale, without a legend entry: the raw values behind a smoothed line
};

struct Panel {
  std::string y_label;
  bool log_y = false;
  std::vector<Series> series;
};

struct Chart {
  std::string title;
  std::string x_label;
  bool log_x = false;
  std::vector<Panel> panels;
  std::vector<std::string> warnings = {};  // about data that cannot be drawn
};

/// False for gaps, for values below 1e-300 on a logarithmic axis, and beyond +-1e300, where differences overflow.
bool is_drawable(double value, bool is_log);

/// A legend entry. Each name appears once; a flag says whether series in several colors share it.
struct LegendEntry {
  const Series* series;
  bool is_shared;
};
std::vector<LegendEntry> legend_entries(const Chart& chart);

/// An axis's ends; low < high.
struct Range {
  double low = 0, high = 1;
};

/// x_range() returns the range of drawable x over all panels, extended to 0 if 0 is close. y_range() returns one
/// panel's y range, widened by 5 %.
Range x_range(const Chart& chart);
Range y_range(const Panel& panel);

/// Reduces a series to about `limit` points: keeps its ends and, from each bucket of neighbors, the smallest y, the
/// largest y and one gap.
Series thin(const Series& series, std::size_t limit);

/// Returns the trailing mean over `window` values at each point. Gaps stay gaps and do not count.
std::vector<double> trailing_mean(const std::vector<double>& values, std::size_t window);

}  // namespace mtl
