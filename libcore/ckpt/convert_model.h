// Converts a model from one format to another, and verifies the output.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "models/megatron_writer.h"
#include "models/model_source.h"

namespace mtl {

struct ConvertOptions {
  std::string load, save;
  std::string to = "hf";
  ModelSupplement given;             // facts that the --load files may not contain
  std::optional<std::string> dtype;  // float32, float16, bfloat16; empty: as stored
  std::string max_shard_size = "5GB";
  MegatronWriteOptions megatron;      // only if to == "megatron": parallel sizes and names
  std::string ckpt_format = "torch";  // likewise: torch or torch_dist
  bool verify = false;
  bool force = false;
  std::string command_line;
  /// Returns the vocabulary size of the tokenizer in `folder`. Empty if there is no tokenizer.
  std::function<std::optional<std::int64_t>(const std::string& folder)> vocabulary_in;
  /// Throws if there is not enough memory to compare logits of models with this configuration. This and compare_logits
  /// are called only with `verify`.
  std::function<void(const GptConfig& config)> check_comparison = [](const GptConfig&) {};
  /// Returns the largest difference between two models' logits.
  std::function<double(const ModelSource& source, const ModelSource& written)> compare_logits;
};

inline constexpr std::uint64_t kMaxSize = 1'000'000'000'000'000'000;
/// Parses a size with a decimal unit ("5GB", "500MB"), with a binary unit ("2GiB"), or in bytes ("1000"). Returns empty
/// for other text, and for sizes below 1 byte or above kMaxSize.
std::optional<std::uint64_t> parse_size(const std::string& text);

/// A tensor's number of elements, and how many are infinite or NaN before and after conversion.
struct NonfiniteElements {
  std::string tensor;
  std::size_t elements = 0, in_source = 0, in_output = 0;
};

struct ConvertReport {
  std::string source, source_kind, output;
  std::string replaced;  // kind of folder that --force replaced; empty if none
  std::string dtype;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> files;            // paths relative to the output folder
  std::vector<NonfiniteElements> nonfinite;  // tensors with infinite or NaN elements, before or after conversion
};

/// Converts a model. The output folder appears only when it is complete. With `verify`, reads the output back before
/// committing it: each tensor must equal the source tensor, rounded to the new dtype, bit for bit. Unless the
/// conversion rounds, the logits must also be equal. Warns about non-finite elements, and about elements that overflow
/// the new dtype; with `verify`, an overflow is an error.
ConvertReport convert_model(const ConvertOptions& options, Console& console);

}  // namespace mtl
