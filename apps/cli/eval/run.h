// Runs mtl-eval: scores a text or token files with a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "cli/eval/model.h"

namespace mtl {

struct EvalOptions {
  ModelOptions model;
  std::string data_path;            // token file prefix; unused if `inputs` are given
  std::vector<std::string> inputs;  // text or JSON lines; "-": standard input
  std::string format = "guess";     // for `inputs`: guess, text or jsonl
  std::string json_key = "text";
  std::optional<std::int64_t> seq_length;  // empty: all of the model's positions
  std::optional<std::int64_t> batch_size;  // in windows; empty: as many as hold 4,096 tokens
  bool json = false;
};

struct EvalReport {
  std::string model;
  std::vector<std::string> data;
  double loss = 0;  // mean, in nats per token
  double perplexity = 0;
  std::int64_t tokens = 0;         // predicted
  std::int64_t stream_tokens = 0;  // tokens read, including the first one, which is not predicted
  std::int64_t windows = 0;
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> bytes;  // size of the text; empty for token files
  double seconds = 0;

  /// Empty without `bytes`.
  std::optional<double> bits_per_byte() const;
  /// Returns "loss 3.123400  perplexity 22.7236  tokens 12,345", with "  bits/byte 1.012345" for a text, and a newline.
  std::string line() const;
  Json json() const;
};

/// Scores the data. Throws UsageError if flags do not fit the model, Error(bad_data) if there is no token to predict.
EvalReport evaluate(const EvalOptions& options, Console& console);

}  // namespace mtl
