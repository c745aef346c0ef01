// Dropout in the model: probabilities and seed of a run, and the random stream of each place.
#pragma once

#include "kernels/dropout.h"
#include "nn/context.h"

namespace mtl {

/// Dropout of the run: probabilities and seed. Sites are numbered by the layer's global number.
struct DropoutOptions {
  float hidden = 0;
  float attention = 0;
  std::uint32_t seed = 0;
};

/// Which random stream a place in the model draws from.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_output = 2, mlp_output = 3 };

/// Layers count from 0 globally, whichever stage holds them.
Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer);
/// The same as it acts in a pass: off unless training.
Dropout dropout_in(const Ctx& ctx, Dropout dropout);

}  // namespace mtl
