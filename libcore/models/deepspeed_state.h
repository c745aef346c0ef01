// What the readers of DeepSpeed's optimizer states share: looking up entries of a file, and the state of one
// model-parallel rank, which they fill. Everything throws Error(bad_data) with the file's name.
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

/// Returns a dict's entry.
PickleValue required_entry(const TorchFile& file, PickleValue dict, std::string_view key);
/// Returns the entry of a group in a list; `what` names it.
PickleValue group_entry(const TorchFile& file, PickleValue list, std::size_t group, std::string_view what);
/// Returns a dict's entry under an integer key.
PickleValue numbered_entry(const TorchFile& file, PickleValue dict, std::int64_t number);
/// Returns a flat fp32 tensor; `what` names it.
const TorchTensor& flat_tensor(const TorchFile& file, PickleValue value, std::string_view what);
/// Reads a number of steps: an integer, a float or a tensor with one element. 0 if it is missing.
std::int64_t steps_in(const TorchFile& file, PickleValue dict);

/// Partitions of a flattened group, in order.
using Partitions = std::vector<ShardSegment>;
/// Returns the segments with the elements [begin, begin + count) of a flattened group.
std::vector<ShardSegment> cut(const Partitions& partitions, std::int64_t begin, std::int64_t count);

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

}  // namespace mtl
