// The parameters in a DeepSpeed checkpoint by canonical name, each with its shards. Does not interpret them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/torch_file.h"
#include "models/canonical.h"
#include "models/deepspeed_folder.h"
#include "models/megatron_names.h"

namespace mtl {

/// Consecutive elements of a flattened shard, stored in one file. The segments of a shard are in order, without gaps.
struct FlatSegment {
  const TorchFile* file = nullptr;
  const ZipEntry* record = nullptr;
  std::span<const std::byte> data;  // starts with the segment's first element
  std::int64_t count = 0;           // elements
};

/// A tensor parallel rank's part of a parameter or of a parameter's optimizer state.
struct FlatShard {
  std::vector<std::int64_t> shape;
  StoredDType dtype = StoredDType::f32;
  std::vector<FlatSegment> segments;
};

struct ShardedParameter {
  MegatronSplit split = MegatronSplit::none;
  std::string name;               // the name in the files
  std::vector<FlatShard> shards;  // by tensor parallel rank
};

/// Parameters by canonical name. Rows of a gated MLP that have a matrix of their own are "layers.N.mlp.gate.weight".
using ShardedParameters = std::map<std::string, ShardedParameter>;

struct DeepSpeedModel {
  std::vector<std::unique_ptr<TorchFile>> files;  // those of the model-parallel ranks come first, in order
  int tensor_parallel = 1;
  std::size_t ranks = 0;  // model-parallel ranks
  ShardedParameters parameters;
  std::optional<ShardedParameter> tied_copy;    // the token embedding in the last stage's output layer
  std::map<std::int64_t, std::int64_t> blocks;  // by the number of the pipeline's module; empty without a pipeline
  std::vector<std::string> order;               // canonical names in module order
  std::int64_t layers = 0;
  bool is_neox = false;
  bool has_stripped_vocabulary = false;  // the token embedding has no padding rows

  PickleValue root() const { return files.front()->root(); }
  /// Returns an entry of the first rank's file. Empty if it is missing or None.
  std::optional<PickleValue> find(std::string_view key) const;
  /// Returns the canonical name of a parameter in the files ("layers.2.norm1.weight"). Empty if it is not known.
  std::optional<std::string> canonical_name(std::string_view name) const;
};

/// Numbers the blocks of a pipeline in the order of its modules, and counts layers. Throws Error(bad_data) with `path`
/// for a name that is not a GPT parameter's, and if a module is missing.
void number_blocks(DeepSpeedModel& model, const std::vector<std::string>& names, const std::string& path);

/// Reads a shape in param_shapes, a torch.Size or a tuple. Throws Error(bad_data) with the file if it is not one.
std::vector<std::int64_t> shape_in(const TorchFile& file, PickleValue value);

/// Throws Error(bad_data) if a file's part of `parameters`, the model's or those of a state, is a copy of another
/// file's.
void check_no_copy(const DeepSpeedModel& model, const ShardedParameters& parameters);

/// Opens all files with weights and collects the parameters. Throws Error(bad_data) if a tensor is not a GPT parameter,
/// or if the files do not belong together (rank_files.h).
DeepSpeedModel read_deepspeed_model(const DeepSpeedFiles& files);

}  // namespace mtl
