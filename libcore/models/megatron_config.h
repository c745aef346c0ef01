// Derives a Megatron-LM checkpoint's configuration from its tensors and its pickled arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/pickle.h"
#include "models/model_source.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Facts derived from the names and shapes of the merged tensors. A size is 0 if the tensor that determines it does not
/// exist.
struct MegatronShapes {
  std::int64_t layers = 0, vocabulary_rows = 0, hidden = 0, up_rows = 0, query_norm = 0;
  std::int64_t positions = 0;
  bool has_stripped_vocabulary = false;  // without the padding rows that args.padded_vocab_size counts
  bool has_norm_bias = false, has_head = false;
  LinearBias bias;
};

/// Derives the configuration. `args` is the run's Namespace, if the file has one. Throws Error(bad_data) that lists
/// everything that contradicts the shapes or that mtl does not support. Throws UsageError if neither `args` nor `given`
/// states the number of heads, or if given.vocab_size exceeds the number of token embedding rows. If both state a
/// number of heads, uses the one in `args`; the caller must compare the two. For each assumed value, appends a note for
/// the user to `notes`.
GptConfig megatron_config(const std::optional<PickleValue>& args, double version, const MegatronShapes& shapes,
                          const ModelSupplement& given, std::vector<std::string>& notes);

/// Returns the number of tokens that args.vocab_size states; the token embedding has `rows` rows, including padding.
/// Empty if it does not state it: Megatron-LM reads this argument only for NullTokenizer and TikTokenizer.
std::optional<std::int64_t> megatron_vocabulary(const std::optional<PickleValue>& args, std::int64_t rows);

/// Returns the dropout in the arguments, with Megatron-LM's default for a missing one. Empty if both are missing.
/// Throws Error(bad_data) if a value is not a probability.
std::optional<ModelDropout> megatron_dropout(const std::optional<PickleValue>& args);

/// Returns the parallel sizes in the arguments as (tensor, pipeline). A missing size is 0.
std::pair<std::int64_t, std::int64_t> megatron_parallel_sizes(const std::optional<PickleValue>& args);

}  // namespace mtl
