#include "chart/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/str.h"

namespace mtl {

namespace {

/// Returns the smallest step, 1, 2 or 5 times a power of ten, with at most `count` + 1 ticks over `span`.
double nice_step(double span, int count) {
  double raw = span / std::max(count, 1);
  double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Returns value / unit with `digits` decimals and a suffix; "0" for 0.
std::string scaled(double value, double unit, int digits, const char* suffix) {
  if (value == 0) return "0";
  return format("%.*f%s", digits, value / unit, suffix);
}

bool all_differ(const std::vector<std::string>& labels) {
  return std::set<std::string>(labels.begin(), labels.end()).size() == labels.size();
}

/// True if `digits` decimals show every value exactly, up to 1e-9 of the largest.
bool is_exact(const std::vector<double>& values, double largest, double unit, int digits) {
  return std::ranges::all_of(values, [&](double value) {
    double shown = std::round(value / unit * std::pow(10, digits)) / std::pow(10, digits) * unit;
    return !(std::abs(shown - value) > 1e-9 * largest);
  });
}

/// Returns labels with equally many decimals: 0.5, 1.0, 1.5; 20k, 40k; 1.5e-4. Powers of a thousand get suffixes: k M B
/// T.
std::vector<std::string> tick_labels(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  struct Unit {
    double size;
    std::string suffix;
  };
  Unit unit{1, ""};
  for (const Unit& candidate : {Unit{1e3, "k"}, Unit{1e6, "M"}, Unit{1e9, "B"}, Unit{1e12, "T"}}) {
    if (largest >= 10 * candidate.size || (largest >= candidate.size && candidate.size > 1e3)) unit = candidate;
  }
  if (largest > 0 && (largest < 1e-3 || largest >= 1e16)) {
    int exponent = static_cast<int>(std::floor(std::log10(largest) + 1e-9));
    unit = {std::pow(10, exponent), cat("e", exponent)};
  }
  std::vector<std::string> labels;
  for (int digits = 0; digits <= 12; ++digits) {
    labels.clear();
    for (double value : values) labels.push_back(scaled(value, unit.size, digits, unit.suffix.c_str()));
    if (all_differ(labels) && is_exact(values, largest, unit.size, digits)) break;
  }
  return labels;
}

}  // namespace

double ChartAxis::position(double value) const {
  if (!is_drawable(value, is_log_)) return std::numeric_limits<double>::quiet_NaN();
  if (!is_log_) return (value - range_.low) / (range_.high - range_.low);
  return (std::log(value) - std::log(range_.low)) / (std::log(range_.high) - std::log(range_.low));
}

std::vector<Tick> ChartAxis::ticks(int count) const {
  // Below a factor of five, evenly spaced round numbers are easier to read than 1-2-5.
  return is_log_ && range_.high / range_.low >= 5 ? log_ticks(count) : linear_ticks(count);
}

std::vector<Tick> ChartAxis::linear_ticks(int count) const {
  double span = range_.high - range_.low, step = nice_step(span, count);
  std::vector<double> values;
  for (double n = std::ceil(range_.low / step - 1e-9); n * step <= range_.high + 1e-9 * span; ++n) {
    values.push_back(n == 0 ? 0 : n * step);
  }
  std::vector<std::string> labels = tick_labels(values);
  std::vector<Tick> ticks;
  for (std::size_t i = 0; i < values.size(); ++i) ticks.push_back({values[i], labels[i]});
  return ticks;
}

std::vector<Tick> ChartAxis::log_ticks(int count) const {
  int first = static_cast<int>(std::floor(std::log10(range_.low))),
      last = static_cast<int>(std::ceil(std::log10(range_.high)));
  int stride = std::max(1, (last - first + count - 1) / std::max(count, 1));  // decades between labels
  bool with_halves = last - first <= 2 && count >= 4;                         // few decades: 2 and 5 are labeled too
  std::vector<Tick> ticks;
  for (int decade = first; decade <= last; ++decade) {
    for (int factor = 1; factor < 10; ++factor) {
      double value = factor * std::pow(10, decade);
      if (value < range_.low * (1 - 1e-9) || value > range_.high * (1 + 1e-9)) continue;
      bool labeled = factor == 1 ? (decade - first) % stride == 0 : with_halves && (factor == 2 || factor == 5);
      if (!labeled && stride > 1) continue;
      ticks.push_back({value, labeled ? tick_labels({value})[0] : ""});
    }
  }
  return ticks;
}

}  // namespace mtl
