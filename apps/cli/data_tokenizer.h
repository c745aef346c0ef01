// The optional tokenizer of mtl-data. With a tokenizer, commands print text; without a tokenizer, they print ids.
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

/// Returns true if flags name a tokenizer. --vocab-size alone does not name a tokenizer.
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

/// Loads and returns the tokenizer that flags name. Returns null if flags do not name a tokenizer.
std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options);

/// Warns if the data was made with a different tokenizer, according to PREFIX.json.
void warn_of_other_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer, Console& console);

/// The size of the vocabulary, and the source of this number.
struct VocabularySize {
  std::int64_t size;
  std::string source;  // the tokenizer's type, "--vocab-size", or "PREFIX.json"
};
/// Returns the vocabulary size from the tokenizer (which may be null), otherwise from --vocab-size, otherwise from
/// PREFIX.json. Returns empty if none of these states the size.
std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const IndexedDataset& data);

}  // namespace mtl
