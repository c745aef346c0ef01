// Reads the optimizer state of one model-parallel rank in DeepSpeed's checkpoints: partitions of flattened groups, or
// torch's own states. Throws Error(bad_data) with the file's name.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "models/deepspeed_model.h"

namespace mtl {

template <class... Parts>
[[noreturn]] void refuse_optimizer(const TorchFile& file, const Parts&... parts) {
  fail_at(Exit::bad_data, file.path(), "the optimizer state ", parts...);
}

/// A model-parallel rank, and the state of all ranks, to which its part is added.
struct DeepSpeedRank {
  const DeepSpeedModel& model;
  const TorchFile& file;  // with its part of the model
  int tensor_rank;
  ShardedStates& out;
  std::int64_t& steps;  // of the optimizer, the most that a rank states

  /// Returns this rank's part of a parameter, by its canonical name.
  const StoredShard& shard(const std::string& name) const { return model.parameters.at(name).shards[tensor_rank]; }
  /// Adds this rank's part of a parameter's state to a part of `out`.
  void add(ShardedParameters& to, const std::string& name, std::vector<ShardSegment> segments) const {
    add_state(to, model, name, tensor_rank, std::move(segments));
  }
};

/// Adds a rank's state from the files of its data-parallel ranks, in their order.
void read_deepspeed_partitions(const DeepSpeedRank& rank, const std::vector<const TorchFile*>& shards);

/// Adds a rank's state from the entry `optimizer` of its file. In a pipeline, model.order[first_of_stage] is the
/// stage's first parameter; then sets it to the next stage's.
void read_deepspeed_adam(const DeepSpeedRank& rank, PickleValue optimizer, std::size_t& first_of_stage);

}  // namespace mtl
