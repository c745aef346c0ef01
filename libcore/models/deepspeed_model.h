// Finds the parameters in a DeepSpeed checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/deepspeed_folder.h"
#include "models/sharded_model.h"

namespace mtl {

struct DeepSpeedModel : ShardedModel {
  std::size_t ranks = 0;                        // model-parallel ranks
  std::optional<ShardedParameter> tied_copy;    // the token embedding in the last stage's output layer
  std::map<std::int64_t, std::int64_t> blocks;  // by the number of the pipeline's module; empty without a pipeline
  std::vector<std::string> order;               // canonical names in module order
  bool is_neox = false;
  bool has_stripped_vocabulary = false;  // the token embedding has no padding rows

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
