// Derives the configuration of a Megatron-LM checkpoint from its tensors and its pickled arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/model_source.h"
#include "ckpt/pickle.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Facts from the names and shapes of the merged tensors; a size is 0 if its tensor does not exist.
struct MegatronShapes {
  std::int64_t layers = 0, vocabulary_rows = 0, hidden = 0, up_rows = 0, query_norm = 0;
  std::int64_t positions = 0;
  bool has_norm_bias = false, has_head = false;
  LinearBias bias;
};

/// `args` is the Namespace of the run, if the file has one. Throws Error(bad_data) that lists everything that
/// contradicts the shapes or that mtl would compute differently; UsageError when `given` lacks a value that the file
/// does not state, or has more tokens than the embedding has rows. A number of heads in `args` takes precedence over
/// `given`: the caller compares them. Adds a note for the user about each assumed value to `notes`.
GptConfig megatron_config(const std::optional<PickleValue>& args, double version, const MegatronShapes& shapes,
                          const ModelSupplement& given, std::vector<std::string>& notes);

/// The parallel sizes in the arguments: (tensor, pipeline). 0 where they are absent.
std::pair<std::int64_t, std::int64_t> megatron_parallel_sizes(const std::optional<PickleValue>& args);

}  // namespace mtl
