// Error measures over many numbers, for all modules' tests. NaN in any operand makes the result NaN, which fails every
// comparison with a tolerance. Throws for an empty reference, because nothing would be compared.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.h"

namespace mtl::test {

/// Returns the larger number. Unlike std::max, returns NaN if either number is NaN.
inline double larger_or_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// Returns max |actual - expected| / max |expected|. `actual` must have the same number of elements as `expected`.
inline double max_relative(const float* actual, const std::vector<double>& expected) {
  require(!expected.empty(), "the reference is empty");
  double difference = 0, largest = 1e-300;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = larger_or_nan(difference, std::abs(actual[i] - expected[i]));
    largest = larger_or_nan(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

/// Returns rms(actual - expected) / rms(expected), or 0 if both are equal.
template <class T>
double rms_relative(const T* actual, const std::vector<double>& expected) {
  require(!expected.empty(), "the reference is empty");
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

}  // namespace mtl::test
