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

/// Returns true if flags name a tokenizer. --vocab-size alone does not, because it may be the size of any vocabulary.
bool names_tokenizer(const TokenizerOptions& options);

/// For a Flags::check function: calls check_tokenizer_flags if flags name a tokenizer.
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

/// Loads the tokenizer that flags name; null if they name none.
std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options);

/// Warns if PREFIX.json says that the data was made with a tokenizer other than this one.
void warn_of_other_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer, Console& console);

/// The size of the vocabulary, and what states it.
struct VocabularySize {
  std::int64_t size;
  std::string source;  // the tokenizer's type, "--vocab-size", or "PREFIX.json"
};
/// Returns the size that the tokenizer (may be null) states, else --vocab-size, else PREFIX.json; empty if none does.
std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const IndexedDataset& data);

}  // namespace mtl
