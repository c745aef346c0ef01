// Reads the optimizer state and the training state in DeepSpeed's checkpoints: fp32 weights and Adam's moments of every
// parameter, of model-parallel ranks (deepspeed_state.h) or of universal checkpoints (deepspeed_universal.cpp).
#pragma once

#include "models/deepspeed_model.h"

namespace mtl {

/// Reads all ranks' optimizer state, and the training state. Keeps the files that it opens in model.files. Does not
/// throw if they are not usable, because the weights still are.
ShardedTraining read_deepspeed_training(DeepSpeedModel& model, const DeepSpeedFiles& files);

}  // namespace mtl
