// The run of mtl-eval: scores a text or token files with a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace mtl {

struct EvalOptions {
  std::string load;
  std::string data_path;            // token files, or
  std::vector<std::string> inputs;  // texts
  std::string format = "guess";     // of the texts: guess, text or jsonl
  std::string json_key = "text";
  std::optional<std::int64_t> seq_length;           // empty: all positions of the model
  std::optional<std::int64_t> batch_size;           // empty: windows that make 4,096 tokens
  std::optional<std::int64_t> num_attention_heads;  // for files that do not state them
  std::string dtype = "float32";                    // of computation, weights and cache
  TokenizerOptions tokenizer;
  std::string device = "auto";
  std::int64_t threads = 0;
  bool json = false;
};

struct EvalReport {
  std::string model;
  std::vector<std::string> data;
  double loss = 0;  // mean, nats a token
  double perplexity = 0;
  std::int64_t tokens = 0;         // predicted
  std::int64_t stream_tokens = 0;  // read, the first one included
  std::int64_t windows = 0;
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> bytes;  // of the text; empty for token files
  double seconds = 0;

  std::optional<double> bits_per_byte() const;
  /// "loss 3.123400  perplexity 22.7236  tokens 12,345"
  std::string line() const;
  Json json() const;
};

/// Scores the data. Throws UsageError for flags that do not fit the model, Error(bad_data) for fewer than two tokens.
EvalReport evaluate(const EvalOptions& options, Console& console);

}  // namespace mtl
