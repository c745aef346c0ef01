// Converts a model from one format to another, and verifies the output.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/megatron_writer.h"
#include "ckpt/model_source.h"

namespace mtl {

struct ConvertOptions {
  std::string load, save;
  std::string to = "hf";
  ModelSupplement given;             // facts that the files of --load may lack
  std::optional<std::string> dtype;  // float32, float16, bfloat16; empty: as stored
  std::string max_shard_size = "5GB";
  MegatronWriteOptions megatron;  // with `to` = "megatron": parallel sizes and names
  bool verify = false;
  bool force = false;
  std::string command_line;
  /// The size of the vocabulary of a tokenizer in the model's folder; empty without one.
  std::function<std::optional<std::int64_t>(const std::string& folder)> vocabulary_in;
  /// With `verify`: the largest difference between the logits of two models.
  std::function<double(const ModelSource& source, const ModelSource& written)> compare_logits;
};

inline constexpr std::uint64_t kMaxSize = 1'000'000'000'000'000'000;
/// Parses "5GB" (decimal), "500MB", "2GiB", or bytes. Empty for other text, and for less than 1 byte or more than
/// kMaxSize.
std::optional<std::uint64_t> parse_size(const std::string& text);

/// One tensor's number of elements, and how many of them are infinite or not a number before and after conversion.
struct NonfiniteElements {
  std::string tensor;
  std::size_t elements = 0, in_source = 0, in_output = 0;
};

struct ConvertReport {
  std::string source, source_kind, output;
  std::string replaced;  // the kind of folder that --force replaced; empty without one
  std::string dtype;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> files;            // paths relative to the output folder
  std::vector<NonfiniteElements> nonfinite;  // tensors that have such elements, before or after the conversion
};

/// Writes the output folder, complete or not at all. With `verify`, reads the output back before committing it: every
/// tensor must equal the source's, rounded to the new dtype, bit for bit, and so must the logits unless a dtype rounds.
/// Warns about elements that are not finite, and those that the new dtype cannot hold (an error with `verify`).
ConvertReport convert_model(const ConvertOptions& options, Console& console);

}  // namespace mtl
