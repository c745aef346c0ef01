// Makes token files from flat token files of other tools: the work of mtl-data import.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "data/flat_tokens.h"
#include "data/make_token_files.h"

namespace mtl {

/// The token that separates documents.
struct DocumentToken {
  std::int64_t id;
  bool is_first;  // begins each document, as in llm.c's files, instead of ending it
};

struct ImportOptions {
  std::string prefix;                       // of the token files to make
  std::vector<std::string> command;         // the command line as typed, starting with the program
  std::vector<std::string> other_inputs{};  // files that were read already; outputs must not overwrite them
  std::optional<DataType> type{};           // to store; nullopt: default_import_type()
  std::optional<DocumentToken> document_token{};
  std::optional<std::int64_t> vocab_size{};  // all ids must be below it
  Json tokenizer{};                          // for PREFIX.json, or null
};

/// Returns the type of the widest input. An .idx has no unsigned 32 bits, and no ids need 64, so that is i32 at most.
DataType default_import_type(const std::vector<FlatTokenFile>& inputs);

/// Writes PREFIX.bin, .idx and .json. The inputs' tokens follow each other in order. With a document token, a document
/// may begin in one input and end in another; without, each input that has tokens is a document. Each document is one
/// sequence. Reads each input once, and the new .bin twice to write where its documents are; memory use is bounded.
///
/// Throws Error(bad_data), with the location, for an id that is negative, does not fit the type or 32 bits, or is not
/// below the vocabulary size, and for a document of more than 2^31 - 1 tokens. SIGINT, SIGTERM and SIGHUP terminate the
/// process and leave no files behind.
TokenFilesMade import_tokens(const ImportOptions& options, const std::vector<FlatTokenFile>& inputs, Console& console);

}  // namespace mtl
