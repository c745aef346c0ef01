// Derives a Megatron-LM checkpoint's configuration from its tensors and its pickled arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/console.h"
#include "formats/pickle.h"
#include "models/tensor_reader.h"
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

/// Returns a shape's size along an axis, or 0 if there is no shape or no such axis.
std::int64_t axis_size(const std::optional<std::vector<std::int64_t>>& shape, std::size_t axis);

/// Returns the facts for merged tensors. `shape_of` returns the shape of a tensor by its canonical name, or empty.
MegatronShapes megatron_shapes(
    std::int64_t layers,
    const std::function<std::optional<std::vector<std::int64_t>>(const std::string& name)>& shape_of);

/// Derives the configuration. `args` is the run's Namespace, if the file has one. Throws Error(bad_data) that lists
/// everything that contradicts the shapes or that mtl does not support. Throws UsageError if neither `args` nor `given`
/// states the number of heads, or if given.vocab_size exceeds the number of token embedding rows. If both state a
/// number of heads, uses the one in `args`; the caller must compare the two. For each assumed value, appends a note for
/// the user to `notes`.
GptConfig megatron_config(const std::optional<PickleValue>& args, double version, const MegatronShapes& shapes,
                          const ModelSupplement& given, std::vector<std::string>& notes);

/// Sets a reader's configuration and dropout from the arguments of the checkpoint `path`, and has_padded_vocabulary.
/// Throws as megatron_config() does, with the path before messages about the checkpoint, and warns of its notes.
void read_megatron_args(TensorReader& reader, const std::string& path, const std::optional<PickleValue>& args,
                        double version, const MegatronShapes& shapes, const ModelSupplement& given, Console& console);

/// Returns the number of tokens that args.vocab_size states; the token embedding has `rows` rows, including padding.
/// Empty if it does not state it: Megatron-LM reads this argument only for NullTokenizer and TikTokenizer.
std::optional<std::int64_t> megatron_vocabulary(const std::optional<PickleValue>& args, std::int64_t rows);

/// Returns the dropout in the arguments, with Megatron-LM's default for a missing one. Empty if both are missing.
/// Throws Error(bad_data) if a value is not a probability.
std::optional<ModelDropout> megatron_dropout(const std::optional<PickleValue>& args);

/// Throws UsageError if the vocabulary has more tokens than the token embedding has rows.
void check_vocabulary(std::int64_t tokens, std::int64_t rows);

/// Returns the parallel sizes in the arguments as (tensor, pipeline). A missing size is 0.
std::pair<std::int64_t, std::int64_t> megatron_parallel_sizes(const std::optional<PickleValue>& args);

/// True if an argument is given and true. Throws Error(bad_data) if it is neither true nor false.
bool is_switched_on(PickleValue args, const char* name);

}  // namespace mtl
