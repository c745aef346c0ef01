// The subcommands of mtl-data. Each takes its own words, the subcommand's name first, and returns the exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

class Flags;

/// Adds a problem unless there is a PREFIX, or exactly one.
void check_prefixes(Flags& flags, const std::vector<std::string>& prefixes);
void check_one_prefix(Flags& flags, const std::vector<std::string>& prefixes);

/// Prints counts, sizes and lengths of token files.
int data_info(int argc, const char* const* argv);
/// Checks that token files keep the rules of their format.
int data_verify(int argc, const char* const* argv);
/// The documents themselves.
int data_cat(int argc, const char* const* argv);
/// Documents drawn at random.
int data_sample(int argc, const char* const* argv);
/// Frequencies of tokens, lengths of documents.
int data_stats(int argc, const char* const* argv);
/// Several token files joined into one.
int data_merge(int argc, const char* const* argv);
/// One divided into several.
int data_split(int argc, const char* const* argv);
/// The documents in a random order.
int data_shuffle(int argc, const char* const* argv);
/// The tokens as a NumPy array.
int data_export(int argc, const char* const* argv);
/// The samples that a training run would see, in their order.
int data_order(int argc, const char* const* argv);

}  // namespace mtl
