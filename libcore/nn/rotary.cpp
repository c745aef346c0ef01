#include "nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

double llama3(double frequency, const RotaryOptions& rotary) {
  const double slow = frequency / rotary.factor;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rotary.original_positions);
  if (wavelength > original / rotary.low_freq_factor) return slow;
  if (wavelength < original / rotary.high_freq_factor) return frequency;
  const double share =
      (original / wavelength - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor);
  return (1 - share) * slow + share * frequency;
}

/// Returns how much of a pair's frequency is interpolated by yarn: from 0, none, to 1.
double yarn_ramp(int pair, double dims, const RotaryOptions& rotary) {
  const auto pair_of = [&](double turns) {  // within the original positions
    const auto original = static_cast<double>(rotary.original_positions);
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rotary.base));
  };
  double first = pair_of(rotary.beta_fast), last = pair_of(rotary.beta_slow);
  if (rotary.round_pairs) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, dims - 1);
  if (first == last) last += 0.001;  // as in Peng et al.'s code, so that the ramp is defined
  return std::clamp((pair - first) / (last - first), 0.0, 1.0);
}

double yarn(double frequency, int pair, double dims, const RotaryOptions& rotary) {
  const double ramp = yarn_ramp(pair, dims, rotary);
  return (1 - ramp) * frequency + ramp * frequency / rotary.factor;
}

/// Returns the base for sequences of `length` tokens.
double base_for(std::int64_t length, double dims, const GptConfig& config) {
  const RotaryOptions& rotary = config.rotary;
  if (rotary.scaling != RotaryOptions::Scaling::dynamic || length <= config.max_positions) return rotary.base;
  const double ratio = static_cast<double>(length) / static_cast<double>(config.max_positions);
  return rotary.base * std::pow(rotary.factor * ratio - (rotary.factor - 1), dims / (dims - 2));
}

}  // namespace

RotaryFrequencies rotary_frequencies(const GptConfig& config, std::int64_t length) {
  const std::vector<std::string> problems = config.rotary_problems();
  require(problems.empty(), join(problems, "; "));
  const RotaryOptions& rotary = config.rotary;
  const double dims = std::trunc(rotary.percent * static_cast<double>(config.head_dim));
  RotaryFrequencies out{.pairs = static_cast<int>(dims / 2), .interleaved = rotary.interleaved};
  using Scaling = RotaryOptions::Scaling;
  if (rotary.scaling == Scaling::yarn || rotary.scaling == Scaling::longrope) out.scale = rotary.attention_factor;
  const double base = base_for(length, dims, config);
  const bool is_long = length > rotary.original_positions;
  static_assert(2 * std::tuple_size_v<decltype(out.values)> == kMaxRotaryDims);
  for (int i = 0; i < out.pairs; ++i) {
    const double plain = std::pow(base, -2 * i / dims);
    switch (rotary.scaling) {
      case Scaling::none:
      case Scaling::dynamic:
        out.values[i] = plain;
        break;
      case Scaling::linear:
        out.values[i] = plain / rotary.factor;
        break;
      case Scaling::llama3:
        out.values[i] = llama3(plain, rotary);
        break;
      case Scaling::yarn:
        out.values[i] = yarn(plain, i, dims, rotary);
        break;
      case Scaling::longrope:
        out.values[i] = plain / (is_long ? rotary.long_factors : rotary.short_factors)[i];
        break;
    }
  }
  return out;
}

bool rotary_frequencies_change(const GptConfig& config, std::int64_t length) {
  if (!config.depends_on_length()) return false;
  return rotary_frequencies(config, length).values != rotary_frequencies(config, length + 1).values;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  if (factor <= 1) return 1;
  return (0.1 * mscale * std::log(factor) + 1) / (0.1 * mscale_all_dim * std::log(factor) + 1);
}

double longrope_attention_factor(double factor, std::int64_t original_positions) {
  if (factor <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_positions)));
}

}  // namespace mtl
