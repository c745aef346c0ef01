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
  std::string output_prefix;
  std::vector<std::string> special_tokens = {kEndOfText};
  std::int64_t threads = 0;
  bool json = false;
};

/// Writes PREFIX-vocab.json, PREFIX-merges.txt and PREFIX-tokenizer.json and returns a summary:
/// {"schema": "mtl-vocab/1", "vocab_size", "merges", "words", "bytes", "seconds", "outputs"}.
Json train_vocab(const VocabOptions& options, Console& console);

}  // namespace mtl
