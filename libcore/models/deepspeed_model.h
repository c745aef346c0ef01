// Finds the parameters in a DeepSpeed checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/deepspeed_folder.h"
#include "models/sharded_model.h"

namespace mtl {

struct DeepSpeedName {
  std::string canonical;                   // "norm1.weight" in a block, otherwise "embedding.tokens.weight"
  bool is_in_block = false;                // the name belongs to a transformer block
  std::optional<std::int64_t> block = {};  // the block's number: counted from 0, or the number of the pipeline's module
  bool is_module_number = false;
  bool is_neox = false;  // only GPT-NeoX uses the name
  MegatronSplit split = MegatronSplit::none;
};

/// Parses a parameter's name: Megatron-DeepSpeed's, which are Megatron-LM's names in modules or in a pipeline's
/// numbered modules, or GPT-NeoX's. "language_model.encoder.layers.0.input_layernorm.weight",
/// "3.input_layernorm.weight", "sequential.3.mlp.linear1.weight", "tied_modules.embed.word_embeddings.weight". Rows of
/// a gated MLP that have a matrix of their own (mlp.w1) are called "mlp.gate". Returns empty if the name is not in the
/// tables.
std::optional<DeepSpeedName> parse_deepspeed_name(std::string_view name);

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

/// Collects the parameters with their fp32 weights, opens their files and sets model.tensor_parallel, which the shapes
/// in the ranks' files (param_shapes) show. Throws Error(bad_data) if files are missing, or if a tensor is not a GPT
/// parameter or is merged in another way.
void read_universal_weights(DeepSpeedModel& model, const DeepSpeedFiles& files);

/// Returns the optimizer state `state` ("exp_avg") of the same parameters, sharded in the same way.
ShardedParameters read_universal_state(DeepSpeedModel& model, const DeepSpeedFiles& files, const char* state);

}  // namespace mtl
