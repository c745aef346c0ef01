// The mtl-data subcommands. Each takes the command line, starting with its own name, and returns the exit code.
#pragma once

namespace mtl {

/// What a PREFIX is, for a message.
inline constexpr const char* kWhatPrefix = "the path prefix of token files";

/// Prints document counts, sizes and lengths.
int data_info(int argc, const char* const* argv);
/// Checks token files against their format.
int data_verify(int argc, const char* const* argv);
/// Prints documents.
int data_cat(int argc, const char* const* argv);
/// Prints documents drawn at random.
int data_sample(int argc, const char* const* argv);
/// Prints token frequencies and document lengths.
int data_stats(int argc, const char* const* argv);
/// Joins token files.
int data_merge(int argc, const char* const* argv);
/// Divides token files into several, by document.
int data_split(int argc, const char* const* argv);
/// Writes the documents in random order.
int data_shuffle(int argc, const char* const* argv);
/// Writes an .idx with pointers computed from its lengths.
int data_repair(int argc, const char* const* argv);
/// Makes token files from those of other tools.
int data_import(int argc, const char* const* argv);
/// Writes the tokens as a flat file for other tools.
int data_export(int argc, const char* const* argv);
/// Lists the formats of import and export.
int data_formats(int argc, const char* const* argv);
/// Prints the samples a training run reads, in order.
int data_order(int argc, const char* const* argv);

}  // namespace mtl
