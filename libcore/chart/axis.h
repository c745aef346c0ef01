// Axes: where a value lies in a range, and ticks at round numbers.
#pragma once

#include <string>
#include <vector>

#include "chart/series.h"

namespace mtl {

struct Tick {
  double value;
  std::string label;  // empty: a minor tick on a logarithmic axis
};

class ChartAxis {
 public:
  ChartAxis(Range range, bool is_log) : range_(range), is_log_(is_log) {}

  /// Returns 0 at the low end and 1 at the high end; NaN unless is_drawable().
  double position(double value) const;
  /// Returns about `count` ticks with distinct labels inside the range: multiples of 1, 2 or 5 times a power of ten. On
  /// a logarithmic axis whose ends differ by a factor of five or more, these are powers of ten plus, if there is room,
  /// 2 and 5 times each.
  std::vector<Tick> ticks(int count) const;

 private:
  std::vector<Tick> linear_ticks(int count) const;
  std::vector<Tick> log_ticks(int count) const;
  Range range_;
  bool is_log_;
};

}  // namespace mtl
