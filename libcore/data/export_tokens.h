// Writes the tokens of token files as a flat file for other tools: the work of mtl-data export.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "data/flat_tokens.h"
#include "data/indexed_dataset.h"

namespace mtl {

struct ExportOptions {
  std::string output;
  TokenFormat format = TokenFormat::npy;  // npy, llm_c or nanogpt
  std::optional<IntegerType> type{};      // to store; nullopt: default_export_type()
  std::string config_file{};              // path of the --config file, or empty; the output must not overwrite it
};

/// Returns the type for tokens in a flat file: as they are stored, but for llm.c and nanoGPT u32 in place of types of
/// 32 and 64 bits, and u16 in place of smaller ones. Throws Error(bad_data) if the tokens are floats.
IntegerType default_export_type(const IndexedDataset& data, TokenFormat format);

/// Writes all tokens, document by document, without anything between documents. Returns {"schema":
/// "mtl-data-export/1", "output", "format", "dtype", "tokens", "bytes", "xxh3"}. A .npy without a chosen type may also
/// contain floats. Throws Error(bad_data), with the location, for a token that does not fit the type. SIGINT, SIGTERM
/// and SIGHUP terminate the process and leave no file behind.
Json export_tokens(const ExportOptions& options, const IndexedDataset& data, Console& console);

}  // namespace mtl
