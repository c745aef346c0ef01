// Frequencies for a model's rotary positions.
//
//   f_i = base^(-2 i / dims),  dims = percent * head_dim, truncated
//
//   linear   f_i / factor
//   llama3   by wavelength 2 pi / f_i: f_i / factor above original_positions / low_freq_factor, f_i below
//            original_positions / high_freq_factor; between them (1 - s) f_i / factor + s f_i with
//            s = (original_positions / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
//
// As in Hugging Face transformers, but in fp64.
#pragma once

#include "kernels/rotary.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Throws Error with config.rotary_problems() if there are any.
RotaryFrequencies rotary_frequencies(const GptConfig& config);

}  // namespace mtl
