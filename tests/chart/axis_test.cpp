// Chart axes and series: ticks are distinct and round, thinning keeps extremes, and gaps stay gaps.
#include "chart/axis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace mtl;

namespace {

const double kGap = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels(const ChartAxis& axis, int count) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks(count)) {
    if (!tick.label.empty()) out.push_back(tick.label);
  }
  return out;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("ticks: round numbers inside the range") {
  CHECK(labels(ChartAxis({0, 100}, false), 5) == Labels{"0", "20", "40", "60", "80", "100"});
  CHECK(labels(ChartAxis({2.2, 4.1}, false), 4) == Labels{"2.5", "3.0", "3.5", "4.0"});
  CHECK(labels(ChartAxis({0, 6e-4}, false), 4) == Labels{"0", "2e-4", "4e-4", "6e-4"});
  CHECK(labels(ChartAxis({0, 320000}, false), 4) == Labels{"0", "100k", "200k", "300k"});
  CHECK(labels(ChartAxis({0, 3e9}, false), 4) == Labels{"0", "1B", "2B", "3B"});
  CHECK(labels(ChartAxis({-1, 1}, false), 4) == Labels{"-1.0", "-0.5", "0", "0.5", "1.0"});
}

TEST_CASE("ticks: logarithmic axes label decades, and round numbers between if these are few") {
  CHECK(labels(ChartAxis({1, 1e6}, true), 7) == Labels{"1", "10", "100", "1000", "10k", "100k", "1M"});
  CHECK(labels(ChartAxis({3, 60}, true), 6) == Labels{"5", "10", "20", "50"});
  CHECK(labels(ChartAxis({3, 6}, true), 4) == Labels{"3", "4", "5", "6"});
  CHECK(labels(ChartAxis({1e-8, 1e8}, true), 5).size() <= 6);
  CHECK(ChartAxis({1, 100}, true).position(10) == doctest::Approx(0.5));
  CHECK_FALSE(std::isfinite(ChartAxis({1, 100}, true).position(0)));
}

TEST_CASE("ticks: any range gets a few labels, all distinct and inside it") {
  // Below 1e-12 of the values' magnitude, a double runs out of precision.
  for (double low : {-5e8, -3.7, -1e-9, 0.0, 1e-12, 2.5e-4, 0.33, 7.0, 99999.0, 4e15}) {
    for (double span : {1e-6, 0.01, 0.7, 13.0, 5000.0, 3e7}) {
      double scale = std::max(1.0, std::abs(low) * 1e-6);
      Range range{low, low + span * scale};
      CAPTURE(range.low);
      CAPTURE(range.high);
      std::vector<Tick> ticks = ChartAxis(range, false).ticks(6);
      std::set<std::string> names;
      for (const Tick& tick : ticks) {
        names.insert(tick.label);
        CHECK(tick.value >= range.low - 1e-6 * span * scale);
        CHECK(tick.value <= range.high + 1e-6 * span * scale);
      }
      CHECK(ticks.size() >= 2);
      CHECK(ticks.size() <= 8);
      CHECK(names.size() == ticks.size());
    }
  }
}

TEST_CASE("ranges: never empty, for any values") {
  auto range_of = [](std::vector<double> y, bool is_log) {
    Panel panel{.y_label = "y", .log_y = is_log, .series = {}};
    std::vector<double> x(y.size(), 1);
    panel.series.push_back({.name = "a", .x = x, .y = std::move(y)});
    return y_range(panel);
  };
  for (bool is_log : {false, true}) {
    for (auto y : std::vector<std::vector<double>>{{}, {kGap}, {5}, {0}, {0, 0}, {-3}, {1, 1 + 1e-15}, {INFINITY, 2}}) {
      Range range = range_of(y, is_log);
      CHECK(std::isfinite(range.low));
      CHECK(range.high > range.low);
    }
  }
  CHECK(range_of({2, 4}, false).low == doctest::Approx(1.9));
  CHECK(range_of({-1, 0, 10, 1000}, true).low > 0);
}

TEST_CASE("thinning: returns about the requested number of points and keeps extremes, ends and gaps") {
  Series series{.name = "a", .x = {}, .y = {}};
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(std::sin(i * 0.001));
  }
  series.y[31337] = 50;
  series.y[70001] = -50;
  for (int i = 50000; i < 50500; ++i) series.y[static_cast<std::size_t>(i)] = kGap;
  Series thinned = thin(series, 2000);
  CHECK(thinned.x.size() <= 2100);
  CHECK(thinned.x.size() > 1500);
  CHECK(std::is_sorted(thinned.x.begin(), thinned.x.end()));
  CHECK(thinned.x.front() == 0);
  CHECK(thinned.x.back() == 99999);
  CHECK(std::count(thinned.y.begin(), thinned.y.end(), 50) == 1);
  CHECK(std::count(thinned.y.begin(), thinned.y.end(), -50) == 1);
  CHECK(std::any_of(thinned.y.begin(), thinned.y.end(), [](double y) { return std::isnan(y); }));
  CHECK(thin(thinned, 5000).x.size() == thinned.x.size());
}

TEST_CASE("trailing mean: averages the available values, and gaps stay") {
  std::vector<double> mean = trailing_mean({1, 3, kGap, 5, 7}, 3);
  CHECK(mean[0] == 1);
  CHECK(mean[1] == 2);
  CHECK(std::isnan(mean[2]));
  CHECK(mean[3] == 4);
  CHECK(mean[4] == 6);
}

TEST_CASE("trailing mean: equals the mean of each window, also after a spike") {
  std::vector<double> values;
  for (int i = 0; i < 50; ++i) values.push_back(i == 9 ? 1e300 : i % 11 == 5 ? kGap : i * 37 % 17);
  for (std::size_t window : {1, 2, 3, 7, 10, 49, 50, 51, 1000}) {
    CAPTURE(window);
    std::vector<double> mean = trailing_mean(values, window);
    REQUIRE(mean.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(std::isnan(mean[i]) == std::isnan(values[i]));
      if (std::isnan(values[i])) continue;
      double sum = 0, count = 0;
      for (std::size_t j = i + 1 > window ? i + 1 - window : 0; j <= i; ++j) {
        if (!std::isnan(values[j])) sum += values[j], ++count;
      }
      CHECK(mean[i] == doctest::Approx(sum / count));
    }
  }
  CHECK(trailing_mean({}, 3).empty());
}

TEST_CASE("axes: extreme values neither overflow nor shift other values") {
  Panel panel{.y_label = "loss", .log_y = false, .series = {}};
  panel.series.push_back({.name = "run", .x = {1, 2, 3, 4}, .y = {1, 1e308, -1e308, 3}});
  Range range = y_range(panel);
  CHECK(range.low > 0);
  CHECK(range.high < 4);
  CHECK(std::isnan(ChartAxis(range, false).position(1e308)));
  panel.series[0].y = {-1e300, 1e300, 0, 1};
  CHECK(ChartAxis(y_range(panel), false).position(0) == doctest::Approx(0.5));
  panel.log_y = true;
  panel.series[0].y = {1e-300, 1e300, 0, 1};
  CHECK(ChartAxis(y_range(panel), true).position(1) == doctest::Approx(0.5));
  CHECK_FALSE(ChartAxis(y_range(panel), true).ticks(5).empty());
}
