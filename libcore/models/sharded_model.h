// A checkpoint's parameters by canonical name, each with the shards that its tensor parallel ranks have: what
// Megatron-LM's torch checkpoints and DeepSpeed's have in common. Does not interpret the shards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/find.h"
#include "formats/torch_file.h"
#include "models/megatron_names.h"
#include "models/rank_files.h"
#include "models/tensor_reader.h"

namespace mtl {

/// Consecutive elements of a shard, in row-major order, in one file.
struct ShardSegment {
  const TorchFile* file = nullptr;
  TorchTensor elements;  // contiguous, unless it is the whole shard
};

/// Returns the elements [begin, begin + count) of a contiguous tensor.
ShardSegment flat_segment(const TorchFile& file, const TorchTensor& tensor, std::int64_t begin, std::int64_t count);

/// A tensor parallel rank's part of a parameter or of a parameter's optimizer state. Its segments are in order, without
/// gaps. There is one, except in optimizer states of DeepSpeed.
struct StoredShard {
  std::vector<std::int64_t> shape;
  StoredDType dtype = StoredDType::f32;
  std::vector<ShardSegment> segments;

  std::int64_t count() const { return whole_slice(shape).count(); }
  /// Returns the path of the first segment's file.
  const std::string& path() const { return segments.front().file->path(); }
};

/// Returns a shard's elements, row-major.
std::vector<std::byte> elements_of(const StoredShard& shard);
/// True if two shards have the same shape, dtype and elements.
bool same_shard(const StoredShard& a, const StoredShard& b);
/// True if all elements of main weights, which may have multiple segments, round to the weights, which have one.
bool rounds_to_weights(const StoredShard& main, const StoredShard& weights);

struct ShardedParameter {
  MegatronSplit split = MegatronSplit::none;
  std::string name;                 // the name in the first shard's file
  std::vector<StoredShard> shards;  // by tensor parallel rank
};

/// Parameters by canonical name. Rows of a gated MLP that have a matrix of their own are "layers.N.mlp.gate.weight".
using ShardedParameters = std::map<std::string, ShardedParameter>;

/// Returns the name of the gate's own matrix, or bias, beside "layers.N.mlp.up.KIND", and the reverse. Returns every
/// other name as it is.
std::string gate_name(std::string up);
std::string up_name(std::string gate);

/// Adds the shard of tensor parallel rank `rank`, a tensor that is called `name` in its file. Throws Error(bad_data) if
/// the parameter already has one of this rank, or none of the rank before it.
void add_shard(ShardedParameter& parameter, int rank, const std::string& name, MegatronSplit split,
               const TorchFile& file, const TorchTensor& tensor);

struct ShardedModel {
  std::vector<std::unique_ptr<TorchFile>> files;  // those of the model-parallel ranks come first, in order
  int tensor_parallel = 1;
  ShardedParameters parameters;
  std::int64_t layers = 0;

  PickleValue root() const { return files.front()->root(); }
  /// Returns a parameter by its canonical name, or nullptr.
  const ShardedParameter* parameter(const std::string& name) const { return find_or_null(parameters, name); }
  /// Returns the shape of all shards of a parameter together. Empty if there is no such parameter.
  std::optional<std::vector<std::int64_t>> shape_of(const std::string& name) const;
  /// Throws Error(bad_data) unless every tensor parallel rank has a shard of every parameter.
  void check_ranks() const;
};

/// Adds one rank's shard of a matrix that tensor parallelism cuts, if it is a single segment. Ignores other parameters.
void add_matrix(RankMatrices& matrices, const std::string& name, const ShardedParameter& parameter, std::size_t rank);

/// What an optimizer has of every parameter: fp32 weights, if they are not the parameters themselves, and Adam's
/// moments.
struct ShardedStates {
  ShardedParameters main, exp_avg, exp_avg_sq;
  std::vector<std::unique_ptr<TorchFile>> files;  // every rank's distrib_optim.pt (Megatron-LM); otherwise empty
};

template <class... Parts>
[[noreturn]] void refuse_optimizer(const TorchFile& file, const Parts&... parts) {
  fail_at(Exit::bad_data, file.path(), "the optimizer state ", parts...);
}

/// Return an entry of a dict in an optimizer state, by its key or by the number of a parameter. Throw Error(bad_data)
/// if it is missing.
PickleValue required_entry(const TorchFile& file, PickleValue dict, std::string_view key);
PickleValue required_entry(const TorchFile& file, PickleValue dict, std::int64_t number);

/// The optimizer states of all ranks, to which the part of one model-parallel rank is added.
template <class Model>
struct RankStates {
  const Model& model;
  const TorchFile& file;  // with the rank's part
  std::size_t tensor_rank;
  ShardedStates& out;
  std::int64_t& steps;  // of the optimizer; 0 if no file states it

  /// Returns this rank's part of a parameter, by its canonical name.
  const StoredShard& weight(const std::string& name) const { return model.parameters.at(name).shards[tensor_rank]; }
  /// Adds this rank's part of a parameter's state to a part of `out`. Ignores a second one, that of the token
  /// embedding's copy in a tied output layer.
  void add(ShardedParameters& to, const std::string& name, std::vector<ShardSegment> segments) const {
    const ShardedParameter& parameter = model.parameters.at(name);
    ShardedParameter& state = to[name];
    if (state.shards.empty()) state = {.split = parameter.split, .name = parameter.name, .shards = {}};
    if (state.shards.size() == tensor_rank)
      state.shards.push_back({weight(name).shape, StoredDType::f32, std::move(segments)});
  }
  /// Throws Error(bad_data) with the file.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    refuse_optimizer(file, parts...);
  }
  PickleValue entry(PickleValue dict, const auto& key) const { return required_entry(file, dict, key); }
};

struct ShardedTraining {
  std::optional<ShardedStates> optimizer;  // empty if the files have no optimizer state, or if it is not usable
  std::optional<TrainState> state;         // may exist without a usable optimizer state
  std::string problem;  // why a run cannot resume with the optimizer state; "" if it can, or if there is none
};

}  // namespace mtl
