// Dropout in the model: a run's probabilities and seed, and a random stream for each site.
#pragma once

#include "kernels/dropout.h"
#include "nn/context.h"

namespace mtl {

/// The dropout options of a run.
struct DropoutOptions {
  float hidden = 0;
  float attention = 0;
  std::uint32_t seed = 0;
};

/// A place in the model with its own random stream.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_output = 2, mlp_output = 3 };

/// Returns a site's dropout. `layer` is counted from 0 over the entire model.
Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer);
/// Returns `dropout` in training, no dropout in evaluation.
Dropout dropout_in(const Ctx& ctx, Dropout dropout);

}  // namespace mtl
