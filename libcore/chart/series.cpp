#include "chart/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtl {

namespace {

constexpr double kLargest = 1e300, kSmallest = 1e-300;

/// Collects the values an axis must show.
class Extent {
 public:
  explicit Extent(bool is_log) : is_log_(is_log) {}

  void add(double value) {
    if (!is_drawable(value, is_log_)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }

  /// Returns the range, widened at both ends by `margin` times its length. A single value gets some room around it.
  Range range(double margin) const {
    if (low_ > high_) return is_log_ ? Range{1, 10} : Range{0, 1};
    if (is_log_) {
      double factor = low_ == high_ ? 2 : std::exp((std::log(high_) - std::log(low_)) * margin);
      return {std::max(low_ / factor, kSmallest / 10), std::min(high_ * factor, kLargest * 10)};
    }
    double room = (high_ - low_) * margin;
    // Values that differ only by rounding get as much room as a single one, because an axis needs distinct ticks.
    double least = 1e-9 * std::max(std::abs(low_), std::abs(high_));
    if (high_ - low_ <= least) room = std::abs(low_) / 2;
    if (low_ == 0 && high_ == 0) return {0, 1};
    return {low_ - room, high_ + room};
  }

 private:
  bool is_log_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

bool is_drawable(double value, bool is_log) {
  return std::abs(value) <= kLargest && (!is_log || value >= kSmallest);  // false for NaN
}

std::vector<LegendEntry> legend_entries(const Chart& chart) {
  std::vector<LegendEntry> entries;
  for (const Panel& panel : chart.panels) {
    for (const Series& series : panel.series) {
      if (series.is_faint) continue;
      auto same = [&](const LegendEntry& entry) { return entry.series->name == series.name; };
      auto known = std::ranges::find_if(entries, same);
      if (known == entries.end())
        entries.push_back({&series, false});
      else
        known->is_shared = known->is_shared || known->series->color != series.color;
    }
  }
  return entries;
}

Range x_range(const Chart& chart) {
  Extent extent(chart.log_x);
  for (const Panel& panel : chart.panels) {
    for (const Series& series : panel.series) {
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        if (is_drawable(series.y[i], panel.log_y)) extent.add(series.x[i]);
      }
    }
  }
  Range range = extent.range(0);
  // If a run starts near the origin, show the origin.
  if (!chart.log_x && range.low > 0 && range.low < range.high / 2) range.low = 0;
  return range;
}

Range y_range(const Panel& panel) {
  Extent extent(panel.log_y);
  for (const Series& series : panel.series) {
    for (double y : series.y) extent.add(y);
  }
  return extent.range(0.05);
}

Series thin(const Series& series, std::size_t limit) {
  std::size_t count = series.y.size(), buckets = std::max<std::size_t>(1, limit / 2);
  if (count <= limit) return series;
  Series out = series;
  out.x.clear();
  out.y.clear();
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    std::size_t begin = bucket * count / buckets, end = (bucket + 1) * count / buckets;
    std::vector<std::size_t> kept;
    std::size_t low = end, high = end, gap = end;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(series.y[i])) {
        gap = i;
        continue;
      }
      if (low == end || series.y[i] < series.y[low]) low = i;
      if (high == end || series.y[i] > series.y[high]) high = i;
    }
    for (std::size_t i : {low, high, gap}) {
      if (i != end) kept.push_back(i);
    }
    if (bucket == 0) kept.push_back(0);
    if (bucket + 1 == buckets) kept.push_back(count - 1);
    std::ranges::sort(kept);
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (std::size_t i : kept) {
      out.x.push_back(series.x[i]);
      out.y.push_back(series.y[i]);
    }
  }
  return out;
}

std::vector<double> trailing_mean(const std::vector<double>& values, std::size_t window) {
  // Values are divided into blocks of `window`. Any window consists of one block's end and the next one's beginning, so
  // its sum is a suffix sum plus a prefix sum. So the cost does not depend on the window, and nothing is subtracted.
  const std::size_t size = values.size();
  window = std::clamp<std::size_t>(window, 1, std::max<std::size_t>(size, 1));
  struct Sum {
    double total = 0;
    std::size_t count = 0;
    void add(double value) {
      if (!std::isfinite(value)) return;
      total += value;
      ++count;
    }
  };
  std::vector<Sum> suffix(size), prefix(size);  // within a block: from i to its end, from its start to i
  for (std::size_t i = size; i-- > 0;) {
    suffix[i] = i + 1 == size || (i + 1) % window == 0 ? Sum{} : suffix[i + 1];
    suffix[i].add(values[i]);
  }
  std::vector<double> out(size, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < size; ++i) {
    prefix[i] = i % window == 0 ? Sum{} : prefix[i - 1];
    prefix[i].add(values[i]);
    if (!std::isfinite(values[i])) continue;
    Sum sum = prefix[i];
    if ((i + 1) % window != 0 && i + 1 > window) {
      const Sum& before = suffix[i + 1 - window];
      sum.total += before.total;
      sum.count += before.count;
    }
    out[i] = sum.total / double(sum.count);
  }
  return out;
}

}  // namespace mtl
