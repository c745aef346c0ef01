// mtl-vocab: trains a byte-level BPE vocabulary on text or JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "text/bpe_vocabulary.h"

namespace mtl {

struct VocabOptions {
  std::vector<std::string> inputs;
  std::string json_key = "text";
  std::string format = "auto";  // auto: JSON lines if the name without a compression suffix ends in .jsonl or .json
  std::string unit = "document";
  std::int64_t vocab_size = 0;
  std::string config_file;  // from --config, or empty; outputs must not replace it
  std::string output_prefix;
  std::vector<std::string> special_tokens = {kEndOfText};
  std::int64_t min_frequency = 0;
  std::int64_t max_words = 20'000'000;  // distinct words, 64 bytes each on average; more: Error(failure)
  std::int64_t threads = 0;
  bool json = false;
};

/// Writes PREFIX-vocab.json, PREFIX-merges.txt and PREFIX-tokenizer.json. Returns a summary: {"schema": "mtl-vocab/1",
/// "vocab_size", "merges", "words", "bytes", "counted_mb_per_second", "seconds", "outputs"}.
Json train_vocab(const VocabOptions& options, Console& console);

}  // namespace mtl
