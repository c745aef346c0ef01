// Counts the words in text, to train a vocabulary from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/console.h"
#include "prep/vocab_training.h"
#include "text/bpe_trainer.h"

namespace mtl {

struct CountedWords {
  WordCounts words;
  std::uint64_t bytes = 0;  // of text
  double seconds = 0;
};

/// True if --format or the file name indicates JSON lines.
bool holds_json_lines(const VocabOptions& options, std::string_view file);

/// Counts the words in all files on `options.threads` threads. Throws Error(bad_data) if a file is neither text nor
/// JSON lines, Error(failure) if there are more than options.max_words distinct words, and Error(usage) if standard
/// input's format is ambiguous.
CountedWords count_words(const VocabOptions& options, const std::vector<std::string>& files, Console& console);

}  // namespace mtl
