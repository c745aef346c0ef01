// Checks token files completely: every rule of the format, PREFIX.json, and the ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/indexed_checks.h"
#include "data/provenance.h"

namespace mtl {

/// The vocabulary size and where it comes from.
struct VocabularySize {
  std::int64_t size;
  std::string source;  // the tokenizer's type, a flag, or "PREFIX.json"
};

/// Returns the vocabulary size that PREFIX.json records, or nullopt if there is none or PREFIX.json is invalid.
std::optional<VocabularySize> recorded_vocabulary_size(const std::string& prefix);

/// The result of checking one .bin and .idx pair.
struct Verdict {
  std::string prefix;
  Exit code = Exit::ok;                            // bad_data: a rule is broken; io: a file cannot be read
  std::string message;                             // about the first fault; empty if `code` is ok
  std::optional<BrokenRule::Violation> violation;  // of the first broken rule
  // The rest is complete only if `code` is ok.
  std::int64_t documents = 0, sequences = 0, tokens = 0;
  DataType type{};
  std::optional<VocabularySize> vocabulary;  // all ids are below it
  ProvenanceCheck provenance = ProvenanceCheck::none;
};

/// Checks PREFIX.bin and PREFIX.idx, where `path` is the prefix or the path of either file. If `vocabulary` is given,
/// all ids must be below it. Throws only errors that are not about the files.
Verdict verify_token_files(const std::string& path, const std::optional<VocabularySize>& vocabulary, int threads);

}  // namespace mtl
