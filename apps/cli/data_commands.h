// The subcommands of mtl-data. Each function takes the command line, beginning with the name of the subcommand, and
// returns the exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

class Flags;

/// Adds a problem unless there is at least one PREFIX.
void check_prefixes(Flags& flags, const std::vector<std::string>& prefixes);
/// Adds a problem unless there is exactly one PREFIX.
void check_one_prefix(Flags& flags, const std::vector<std::string>& prefixes);

/// Prints counts, sizes and lengths of token files.
int data_info(int argc, const char* const* argv);
/// Checks token files against the rules of their format.
int data_verify(int argc, const char* const* argv);
/// Prints documents.
int data_cat(int argc, const char* const* argv);
/// Prints documents drawn at random.
int data_sample(int argc, const char* const* argv);
/// Prints frequencies of tokens and lengths of documents.
int data_stats(int argc, const char* const* argv);
/// Joins token files.
int data_merge(int argc, const char* const* argv);
/// Divides the documents of token files into several token files.
int data_split(int argc, const char* const* argv);
/// Writes the documents in a random order.
int data_shuffle(int argc, const char* const* argv);
/// Writes the tokens as a NumPy array.
int data_export(int argc, const char* const* argv);
/// Prints the samples that a training run reads, in order.
int data_order(int argc, const char* const* argv);

}  // namespace mtl
