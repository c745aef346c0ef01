// Scores text or token files with a model: the work of mtl-eval.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "eval/scorer.h"
#include "eval/token_source.h"

namespace mtl {

struct EvalOptions {
  std::string data_path;                   // token file prefix; unused if `inputs` are given
  std::vector<std::string> inputs;         // text or JSON lines; "-": standard input
  std::optional<std::int64_t> seq_length;  // empty: all of the model's positions
  std::optional<std::int64_t> batch_size;  // in windows; empty: as many as hold 4,096 tokens and fit into memory

  /// Returns the names of the data.
  std::vector<std::string> data() const { return inputs.empty() ? std::vector{data_path} : inputs; }
};

struct EvalReport {
  std::string model;  // its folder, set by the caller
  std::vector<std::string> data;
  Score score;
  std::int64_t stream_tokens = 0;  // tokens read, including the first one, which is not predicted
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> bytes;  // size of the text; empty for token files
  double seconds = 0;

  /// Empty without `bytes`.
  std::optional<double> bits_per_byte() const;
  /// Returns "loss 3.123400  perplexity 22.7236  tokens 12,345", with "  bits/byte 1.012345" for a text, and a newline.
  std::string line() const;
  Json json() const;
};

/// Throws UsageError if the windows are longer than the model's positions.
void check_seq_length(const EvalOptions& options, const GptConfig& config);

/// Scores `tokens`, which the caller has opened from the data. Throws Error(bad_data) if there is no token to predict,
/// and UsageError if a batch does not fit into memory.
EvalReport evaluate(const EvalOptions& options, Model& model, TokenSource& tokens, Console& console);

}  // namespace mtl
