#include "nn/rotary.h"

#include <cmath>
#include <numbers>

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

void check(const RotaryOptions& rotary) {
  require(rotary.base > 0, "rotary base ", rotary.base, ": it must be above 0");
  if (rotary.scaling == RotaryOptions::Scaling::none) return;
  require(rotary.factor > 0, "rotary scaling factor ", rotary.factor, ": it must be above 0");
  if (rotary.scaling == RotaryOptions::Scaling::linear) return;
  require(rotary.low_freq_factor > 0 && rotary.high_freq_factor > rotary.low_freq_factor,
          "rotary scaling: low_freq_factor ", rotary.low_freq_factor, " must be above 0 and below high_freq_factor ",
          rotary.high_freq_factor);
  require(rotary.original_positions > 0, "rotary scaling: ", rotary.original_positions,
          " original positions; there must be at least 1");
}

}  // namespace

RotaryFrequencies rotary_frequencies(const GptConfig& config) {
  const RotaryOptions& rotary = config.rotary;
  check(rotary);
  RotaryFrequencies out{.interleaved = rotary.interleaved};
  const double dims = std::trunc(rotary.percent * static_cast<double>(config.head_dim));
  require(dims >= 2 && dims <= static_cast<double>(config.head_dim) && std::fmod(dims, 2) == 0,
          "rotary positions: a share of ", rotary.percent, " of a head of ", config.head_dim, " elements is ", dims,
          "; it must be an even number of them");
  out.pairs = static_cast<int>(dims / 2);
  require(out.pairs <= std::ssize(out.values), "rotary positions: ", dims, " elements of a head rotate; at most ",
          2 * out.values.size(), " are supported");
  for (int i = 0; i < out.pairs; ++i) out.values[i] = scaled(std::pow(rotary.base, -2 * i / dims), rotary);
  return out;
}

}  // namespace mtl
