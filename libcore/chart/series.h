// The contents of a chart: panels stacked on one x axis, each with lines and markers. NaN is a gap.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mtl {

struct Series {
  std::string name;  // markers of several runs may share a name, which the legend shows once, without a color
  std::vector<double> x;
  std::vector<double> y;    // as long as x
  std::size_t color = 0;    // color number; series of the same run share it
  bool is_markers = false;  // points without a line
  bool is_faint = false;    // drawn pale and kept out of the legend: the raw values behind a smoothed line
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
  std::vector<std::string> warnings = {};  // describe data that cannot be drawn
};

/// False for gaps, for values below 1e-300 on a logarithmic axis, and beyond +-1e300, where differences overflow.
bool is_drawable(double value, bool is_log);

/// An entry of a legend: a name, which appears only once, and a flag that tells whether series of several colors share
/// the name.
struct LegendEntry {
  const Series* series;
  bool is_shared;
};
std::vector<LegendEntry> legend_entries(const Chart& chart);

/// The ends of an axis; low < high.
struct Range {
  double low = 0, high = 1;
};

/// x_range() returns the range of drawable x over all panels, extended to 0 if 0 is near. y_range() returns the range
/// of y in one panel, widened by 5 %.
Range x_range(const Chart& chart);
Range y_range(const Panel& panel);

/// Reduces a series to about `limit` points: keeps the smallest and the largest y of each bucket of neighbors, one of
/// its gaps, and the ends of the series.
Series thin(const Series& series, std::size_t limit);

/// Returns, for each value, the mean of the value and the `window` - 1 preceding values. Gaps remain gaps and do not
/// count in the means.
std::vector<double> trailing_mean(const std::vector<double>& values, std::size_t window);

}  // namespace mtl
