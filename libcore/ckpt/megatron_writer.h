// Writes a model as a Megatron-LM torch checkpoint (version 3.0, with megatron-core's names): the weights for each
// tensor and pipeline parallel rank, and the arguments that describe the model. The checkpoint has neither optimizer
// state nor random number generator state, so Megatron-LM must load it with --finetune, or with --no-load-optim
// --no-load-rng.
//
//   FOLDER/latest_checkpointed_iteration.txt          "release"
//   FOLDER/release/mp_rank_TT[_PPP]/model_optim_rng.pt
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ckpt/conversion_hook.h"
#include "ckpt/model_source.h"
#include "ckpt/stored_dtype.h"

namespace mtl {

struct MegatronWriteOptions {
  std::optional<StoredDType> dtype;  // empty: as stored
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::int64_t make_vocab_size_divisible_by = 128;
  bool transformer_engine = true;  // use Transformer Engine's names, where a norm is part of the next linear
  ConversionHook on_conversion = {};
};

/// Returns what Megatron-LM's arguments cannot describe about the model, and sizes that are not multiples of the
/// parallel sizes. Empty if the model can be written.
std::vector<std::string> megatron_problems(const GptConfig& config, const MegatronWriteOptions& options);

/// Writes the checkpoint into an existing, empty folder. Syncs every file. The caller must rename the folder to its
/// final name. If megatron_problems() is not empty, throws Error(usage) that lists the problems.
void write_megatron(const ModelSource& source, const std::string& folder, const MegatronWriteOptions& options);

}  // namespace mtl
