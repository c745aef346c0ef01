// The optional tokenizer of mtl-data: with one, commands print text; without, ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/flags.h"
#include "data/indexed_dataset.h"
#include "text/tokenizer.h"

namespace mtl {

/// True if flags name a tokenizer. --vocab-size alone does not: it is the size of any vocabulary.
bool names_tokenizer(const TokenizerOptions& options);

/// For a Flags::check function: check_tokenizer_flags if a tokenizer is named.
void check_optional_tokenizer(Flags& flags, const TokenizerOptions& options);

/// Options of the commands that read every token, verify and stats.
struct DataInspection {
  std::vector<std::string> prefixes;
  TokenizerOptions tokenizer;
  bool json = false;
  std::int64_t threads = 0;
};
/// Adds PREFIX..., --json with the name of its schema, the tokenizer flags, --threads, and their checks.
void add_inspection_flags(Flags& flags, DataInspection& options, const std::string& schema);

/// Returns the named tokenizer, or null.
std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options);

/// Warns if PREFIX.json says that the data was made with another tokenizer.
void warn_of_other_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer, Console& console);

/// The size of the vocabulary and its source: the tokenizer, --vocab-size, or PREFIX.json. Empty without any of them.
struct VocabularySize {
  std::int64_t size;
  std::string source;
};
std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const IndexedDataset& data);

}  // namespace mtl
