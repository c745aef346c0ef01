// Reads the optimizer state and the training state in DeepSpeed's checkpoints: fp32 weights and Adam's moments of every
// parameter, from partitions (deepspeed_partitions.h), from the model's files (deepspeed_adam.h) or from universal
// checkpoints (deepspeed_universal.h).
#pragma once

#include <optional>
#include <string>

#include "models/deepspeed_state.h"
#include "models/tensor_reader.h"

namespace mtl {

struct DeepSpeedTraining {
  std::optional<DeepSpeedOptimizer> optimizer;  // empty if the files have no optimizer state, or if it is not usable
  std::optional<TrainState> state;
  std::string problem;  // why a run cannot resume with the optimizer state; "" if it can, or if there is none
};

/// Reads all ranks' optimizer state, and the training state. Keeps the files that it opens in model.files. Does not
/// throw if they are not usable, because the weights still are.
DeepSpeedTraining read_deepspeed_training(DeepSpeedModel& model, const DeepSpeedFiles& files);

}  // namespace mtl
