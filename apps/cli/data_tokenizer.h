// The tokenizer of the commands that can do without: given, documents are text; else they are ids.
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

/// Any tokenizer flag asks for one, except --vocab-size by itself: that is the size of a vocabulary, of whatever kind.
bool names_tokenizer(const TokenizerOptions& options);

/// check_tokenizer_flags when a tokenizer is named. Call it in a Flags::check function.
void check_optional_tokenizer(Flags& flags, const TokenizerOptions& options);

/// Options of the commands that look at every token, verify and stats.
struct DataInspection {
  std::vector<std::string> prefixes;
  TokenizerOptions tokenizer;
  bool json = false;
  std::int64_t threads = 0;
};
/// PREFIX..., --json with the name of its schema, the tokenizer flags, --threads, and their checks.
void add_inspection_flags(Flags& flags, DataInspection& options, const std::string& schema);

/// The tokenizer that is named, or none.
std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options);

/// A warning when PREFIX.json says that the data was made with another tokenizer than this one.
void warn_of_other_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer, Console& console);

/// The size of the vocabulary and its source: the tokenizer, --vocab-size, or PREFIX.json. Empty without any of them.
struct VocabularySize {
  std::int64_t size;
  std::string source;
};
std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const IndexedDataset& data);

}  // namespace mtl
