// Writes a model as a Megatron-LM torch checkpoint (version 3.0, with megatron-core's names): the weights for each
// tensor and pipeline parallel rank, and the arguments that describe the model. The checkpoint has neither optimizer
// state nor random number generator state, so Megatron-LM must load it with --finetune, or with --no-load-optim
// --no-load-rng.
//
//   FOLDER/latest_checkpointed_iteration.txt          "release"
//   FOLDER/release/mp_rank_TT[_PPP]/model_optim_rng.pt
//
// A rank's file has the entry "model" or, with multiple chunks per stage, "model0", "model1", ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/stored_dtype.h"
#include "layout/layout.h"
#include "models/conversion_hook.h"
#include "models/model_source.h"

namespace mtl {

struct MegatronWriteOptions {
  std::optional<StoredDType> dtype = {};  // empty: as stored
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  // The number of chunks per stage, directly or by their layers; without both, 1.
  std::optional<std::int64_t> virtual_stages = {}, layers_per_virtual_stage = {};
  std::int64_t make_vocab_size_divisible_by = 128;
  bool transformer_engine = true;  // use Transformer Engine's names, where a norm is part of the next linear
  ConversionHook on_conversion = {};

  /// Returns the stages and their chunks, for a model with `num_layers` layers. The grid has only the pipeline axis.
  Layout pipeline(std::int64_t num_layers) const;
};

/// Returns what Megatron-LM's arguments cannot describe about the model, sizes that are not multiples of the parallel
/// sizes, and chunks without other stages. Empty if the model can be written.
std::vector<std::string> megatron_problems(const GptConfig& config, const MegatronWriteOptions& options);

/// Writes the checkpoint into an existing, empty folder. Syncs every file. The caller must call source.verify(), and
/// then rename the folder to its final name. If megatron_problems() is not empty, throws Error(usage) that lists the
/// problems.
void write_megatron(const ModelSource& source, const std::string& folder, const MegatronWriteOptions& options);

}  // namespace mtl
