// What the commands of mtl-data share that make files: merge, split and shuffle token files, export an array.
#pragma once

#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "cli/flags.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"
#include "data/merge.h"

namespace mtl {

struct DataOutputOptions {
  std::string output_prefix;
  bool json = false;
  std::int64_t threads = 0;
  std::vector<std::string> command;  // as typed, for provenance
};

/// --output-prefix, --json, --threads.
void add_data_output_flags(Flags& flags, DataOutputOptions& options);

/// The words of a command line, the program's name and the command first.
std::vector<std::string> command_words(int argc, const char* const* argv);

/// The files of data sets: .bin, .idx and .json of each.
std::vector<std::string> files_of(const std::vector<const IndexedDataset*>& inputs);

/// Throws Error(io) when the disk of `path` has less room than `bytes`. Makes its folder.
void require_space(const std::string& path, std::uint64_t bytes);

/// A progress line with rate and time left.
class ByteProgress {
 public:
  ByteProgress(Console& console, std::uint64_t total);
  void add(std::uint64_t bytes);
  double seconds() const;

 private:
  Console& console_;
  std::uint64_t total_, done_ = 0;
  double start_;
};

/// One pair of token files to be made.
struct DataPart {
  std::string prefix;
  DocumentList documents;
};

/// Makes all parts, which together hold every document of `inputs` once, with a provenance file each. None appears
/// under its final name before all are complete. Prints what was made: on stdout with --json, schema mtl-data-made/1,
/// else on stderr.
void make_token_files(const DataOutputOptions& options, const std::vector<const IndexedDataset*>& inputs,
                      const MergeTraits& traits, const std::vector<DataPart>& parts, Console& console);

}  // namespace mtl
