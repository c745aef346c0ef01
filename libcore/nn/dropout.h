// Dropout in the model: probabilities and seed of a run, and the random stream of each site.
#pragma once

#include "kernels/dropout.h"
#include "nn/context.h"

namespace mtl {

/// Dropout of the run.
struct DropoutOptions {
  float hidden = 0;
  float attention = 0;
  std::uint32_t seed = 0;
};

/// A site of the model with a random stream of its own.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_output = 2, mlp_output = 3 };

/// Dropout of a site in a layer, numbered from 0 over the whole model.
Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer);
/// `dropout` in training; none in evaluation.
Dropout dropout_in(const Ctx& ctx, Dropout dropout);

}  // namespace mtl
