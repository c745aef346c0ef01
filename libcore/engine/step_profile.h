// The operators in one step on a rank, counted on the meta device. This is the input for predicting a roofline before a
// run.
#pragma once

#include <vector>

#include "device/profile.h"
#include "engine/run_shape.h"
#include "nn/block.h"
#include "nn/gpt_config.h"

namespace mtl {

struct StepProfile {
  Profile profile{Device::meta};
  /// By entry of `profile`: how many entries in a real step it represents. The second micro-batch represents all
  /// micro-batches except the first.
  std::vector<double> weights;
};

/// Profiles forward and backward of at most two micro-batches, and the update.
StepProfile profile_on_meta(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);

}  // namespace mtl
