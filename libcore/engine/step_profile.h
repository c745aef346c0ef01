// The operators of one step of a rank, counted on the meta device: the input of a roofline prediction before a run.
#pragma once

#include <vector>

#include "device/profile.h"
#include "engine/run_shape.h"
#include "nn/block.h"
#include "nn/gpt_config.h"

namespace mtl {

struct StepProfile {
  Profile profile{Device::meta};
  /// How often a step has each entry: later micro-batches are equal, and the second represents them.
  std::vector<double> weights;
};

/// Forward and backward of all micro-batches, and the update.
StepProfile profile_on_meta(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);

}  // namespace mtl
