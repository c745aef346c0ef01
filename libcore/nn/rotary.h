// Frequencies for a model's rotary positions.
//
//   f_i = base^(-2 i / dims),  dims = percent * head_dim, truncated
//
//   linear   f_i / factor
//   llama3   by wavelength 2 pi / f_i: f_i / factor above original_positions / low_freq_factor, f_i below
//            original_positions / high_freq_factor; between them (1 - s) f_i / factor + s f_i with
//            s = (original_positions / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
//   yarn     (1 - r) f_i + r f_i / factor with r = (i - first) / (last - first), from 0 to 1, where `first` and `last`
//            are dims ln(original_positions / (2 pi beta)) / (2 ln base) for beta_fast and beta_slow: the pair that
//            turns beta times within the original positions. Cosines and sines are multiplied by attention_factor.
//   longrope f_i / short_factors[i], or f_i / long_factors[i] in sequences longer than original_positions; with
//            attention_factor
//   dynamic  f_i with the base multiplied by (factor L / P - (factor - 1))^(dims / (dims - 2)) for a sequence of L
//            tokens, if it is longer than the model's P = max_positions
//
// As in Hugging Face transformers, but in fp64.
#pragma once

#include "kernels/rotary.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Returns the frequencies and the scale of cosines and sines for sequences of `length` tokens. Throws Error with
/// config.rotary_problems() if there are any.
RotaryFrequencies rotary_frequencies(const GptConfig& config, std::int64_t length);
/// Returns true if the frequencies for one more token than `length` are others.
bool rotary_frequencies_change(const GptConfig& config, std::int64_t length);

/// Returns the factor of cosines and sines that YaRN recommends for a scaling factor: (0.1 mscale ln(factor) + 1) /
/// (0.1 mscale_all_dim ln(factor) + 1), and 1 for factors up to 1.
double yarn_attention_factor(double factor, double mscale = 1, double mscale_all_dim = 0);
/// Returns the same factor of LongRoPE, sqrt(1 + ln(factor) / ln(original_positions)), where `factor` is how much
/// longer sequences are than originally; 1 for factors up to 1.
double longrope_attention_factor(double factor, std::int64_t original_positions);

}  // namespace mtl
