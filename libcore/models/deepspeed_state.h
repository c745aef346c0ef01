// Reads the optimizer state of one model-parallel rank in DeepSpeed's checkpoints: partitions of flattened groups, or
// torch's own states. Throws Error(bad_data) with the file's name.
#pragma once

#include <vector>

#include "models/deepspeed_model.h"

namespace mtl {

using DeepSpeedRank = RankStates<DeepSpeedModel>;

/// Adds a rank's state from the files of its data-parallel ranks, in their order.
void read_deepspeed_partitions(const DeepSpeedRank& rank, const std::vector<const TorchFile*>& shards);

/// Adds a rank's state from the entry `optimizer` of its file. In a pipeline, model.order[first_of_stage] is the
/// stage's first parameter; then sets it to the next stage's.
void read_deepspeed_adam(const DeepSpeedRank& rank, PickleValue optimizer, std::size_t& first_of_stage);

}  // namespace mtl
