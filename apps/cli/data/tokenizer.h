// mtl-data's optional tokenizer. With a tokenizer, commands print text; without, they print ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "cli/flags.h"
#include "data/indexed_dataset.h"
#include "data/verify.h"
#include "text/tokenizer.h"

namespace mtl {

/// Returns true if flags name a tokenizer. --vocab-size alone does not.
bool names_tokenizer(const TokenizerOptions& options);

/// For Flags::check: calls check_tokenizer_flags if flags name a tokenizer.
void check_optional_tokenizer(Flags& flags, const TokenizerOptions& options);

/// Options for verify and stats, which read every token.
struct DataInspection {
  std::vector<std::string> prefixes;
  TokenizerOptions tokenizer;
  bool json = false;
  std::int64_t threads = 0;
};
/// Adds PREFIX..., --json with its schema's name, the tokenizer flags, --threads, and their checks.
void add_inspection_flags(Flags& flags, DataInspection& options, const std::string& schema);

/// Returns the tokenizer that flags name, or null if they name none.
std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options);

/// Returns a tokenizer's record for PREFIX.json (mtl-idx(5)).
Json describe_tokenizer(const Tokenizer& tokenizer);

/// Warns if PREFIX.json is broken, and if, according to it, the data was made with another tokenizer than the given
/// one.
void warn_of_provenance(const IndexedDataset& data, const Tokenizer* tokenizer, Console& console);

/// Returns the vocabulary size from the tokenizer (can be null), else from --vocab-size, else from PREFIX.json. Returns
/// nullopt if none of them knows it.
std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const std::string& prefix);

}  // namespace mtl
