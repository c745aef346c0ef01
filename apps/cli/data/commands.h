// The mtl-data subcommands. Each takes the command line, starting with its own name, and returns the exit
// code. The table in mtl_data.cpp says what they do.
#pragma once

namespace mtl {

/// What a PREFIX is, for a message.
inline constexpr const char* kWhatPrefix = "the path prefix of token files";
/// Help for PREFIX.
inline constexpr const char* kPrefixHelp = "prefix of the token files, or either of the two files";

using DataCommand = int(int argc, const char* const* argv);
DataCommand data_info, data_verify, data_cat, data_sample, data_stats, data_merge, data_split, data_shuffle,
    data_repair, data_import, data_export, data_formats, data_order;

}  // namespace mtl
