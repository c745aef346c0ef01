// Dropout in the model: probabilities and seed of a run, and the random stream of each site.
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

/// A site of the model that has its own random stream.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_output = 2, mlp_output = 3 };

/// Returns the dropout of a site; `layer` is numbered from 0 over the whole model.
Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer);
/// Returns `dropout` in training, no dropout in evaluation.
Dropout dropout_in(const Ctx& ctx, Dropout dropout);

}  // namespace mtl
