// Writes a model as Megatron-LM's torch checkpoint (megatron-core's names, version 3.0): the weights of every tensor
// and pipeline parallel rank, and the arguments that describe the model. The checkpoint has no optimizer state and no
// random number state: Megatron-LM reads it with --finetune, or --no-load-optim --no-load-rng.
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
  bool transformer_engine = true;  // names norms as Transformer Engine does, fused with the linears after them
  ConversionHook on_conversion = {};
};

/// Lists the model's properties that Megatron-LM's arguments cannot describe, and the sizes that the parallel sizes do
/// not divide. Empty if the model can be written.
std::vector<std::string> megatron_problems(const GptConfig& config, const MegatronWriteOptions& options);

/// Writes into an existing, empty folder. Syncs every file; the caller renames the folder. Throws Error(usage) that
/// lists megatron_problems().
void write_megatron(const ModelSource& source, const std::string& folder, const MegatronWriteOptions& options);

}  // namespace mtl
