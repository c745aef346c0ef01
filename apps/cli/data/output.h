// Shared by the mtl-data commands that write token files: merge, split, shuffle and import.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/flags.h"
#include "data/make_token_files.h"

namespace mtl {

struct DataOutputOptions {
  std::string output_prefix;
  MakeOptions make;
  bool json = false;
};

/// Adds --output-prefix and --json.
void add_output_flags(Flags& flags, DataOutputOptions& options);
/// Adds these and --threads.
void add_data_output_flags(Flags& flags, DataOutputOptions& options);

/// Adds --token-type, the type of tokens in new token files.
void add_token_type_flag(Flags& flags, std::string& name, const std::string& help);
/// Returns the value of --token-type, or nullopt if the flag was not given.
std::optional<DataType> indexed_type_of(const std::string& name);

/// Returns "mtl-data", the subcommand and its arguments, for MakeOptions::command.
std::vector<std::string> command_words(int argc, const char* const* argv);

/// Prints the result: as JSON to stdout (schema mtl-data-made/1) with --json, otherwise to stderr.
void report_made(const DataOutputOptions& options, const TokenFilesMade& made, Console& console);

}  // namespace mtl
