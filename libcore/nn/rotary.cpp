#include "nn/rotary.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

double scaled(double frequency, const RotaryOptions& rotary) {
  if (rotary.scaling == RotaryOptions::Scaling::none) return frequency;
  const double slow = frequency / rotary.factor;
  if (rotary.scaling == RotaryOptions::Scaling::linear) return slow;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rotary.original_positions);
  if (wavelength > original / rotary.low_freq_factor) return slow;
  if (wavelength < original / rotary.high_freq_factor) return frequency;
  const double share =
      (original / wavelength - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor);
  return (1 - share) * slow + share * frequency;
}

}  // namespace

RotaryFrequencies rotary_frequencies(const GptConfig& config) {
  const std::vector<std::string> problems = config.rotary_problems();
  require(problems.empty(), join(problems, "; "));
  const RotaryOptions& rotary = config.rotary;
  const double dims = std::trunc(rotary.percent * static_cast<double>(config.head_dim));
  RotaryFrequencies out{.pairs = static_cast<int>(dims / 2), .interleaved = rotary.interleaved};
  static_assert(2 * std::tuple_size_v<decltype(out.values)> == kMaxRotaryDims);
  for (int i = 0; i < out.pairs; ++i) out.values[i] = scaled(std::pow(rotary.base, -2 * i / dims), rotary);
  return out;
}

}  // namespace mtl
