// mtl-vocab: a byte-level BPE vocabulary learned from text or JSON lines.
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
  std::string format = "auto";  // auto: by the file's name, .jsonl or .json below any compression
  std::string unit = "document";
  std::int64_t vocab_size = 0;
  std::string config_file;  // that --config names, or empty: an input that no output may replace
  std::string output_prefix;
  std::vector<std::string> special_tokens = {kEndOfText};
  std::int64_t min_frequency = 0;
  std::int64_t max_words = 20'000'000;  // different ones, with 64 bytes each on average; more is Error(failure)
  std::int64_t threads = 0;
  bool json = false;
};

/// Writes PREFIX-vocab.json, PREFIX-merges.txt and PREFIX-tokenizer.json and returns a summary:
/// {"schema": "mtl-vocab/1", "vocab_size", "merges", "words", "bytes", "counted_mb_per_second", "seconds", "outputs"}.
Json train_vocab(const VocabOptions& options, Console& console);

}  // namespace mtl
