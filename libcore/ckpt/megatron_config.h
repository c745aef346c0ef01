// The configuration of a Megatron-LM checkpoint: what its tensors show, and what its pickled arguments add.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/model_source.h"
#include "ckpt/pickle.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Facts that the names and shapes of the merged tensors show.
struct MegatronShapes {
  std::int64_t layers = 0, vocabulary_rows = 0, hidden = 0, up_rows = 0, query_norm = 0;
  std::int64_t positions = 0;  // 0: no position embeddings
  bool has_norm_bias = false, has_head = false;
  LinearBias bias;
};

/// `args` is the Namespace of the run, where the file has one. Throws Error(bad_data) with everything that contradicts
/// the shapes and everything that mtl would compute differently; UsageError when `given` lacks a value that the file
/// does not hold, or has more tokens than rows. A number of heads in `args` wins over `given`: the caller compares
/// them. `notes` gets what a user should know about values that were assumed.
GptConfig megatron_config(const std::optional<PickleValue>& args, double version, const MegatronShapes& shapes,
                          const ModelSupplement& given, std::vector<std::string>& notes);

/// The parallel sizes in the arguments: (tensor, pipeline). 0 where they are absent.
std::pair<std::int64_t, std::int64_t> megatron_parallel_sizes(const std::optional<PickleValue>& args);

}  // namespace mtl
