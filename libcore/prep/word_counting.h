// Counts the words of texts, from which a vocabulary is trained.
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

/// True if --format or the name of a file indicates JSON lines.
bool holds_json_lines(const VocabOptions& options, std::string_view file);

/// Counts the words of all files on `options.threads` threads. Throws Error(bad_data) if a file is neither text nor
/// JSON lines, Error(failure) if there are more than options.max_words distinct words, and Error(usage) if the format
/// of standard input is ambiguous.
CountedWords count_words(const VocabOptions& options, const std::vector<std::string>& files, Console& console);

}  // namespace mtl
