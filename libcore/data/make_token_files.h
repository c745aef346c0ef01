// Makes token files from documents in other token files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"
#include "data/merge.h"

namespace mtl {

/// Returns the paths of all files in the data sets: each one's .bin, .idx and .json.
std::vector<std::string> files_of(const std::vector<const IndexedDataset*>& inputs);

/// Throws Error(io) if the disk of the folder that contains `path` has less than `bytes` free.
void require_space(const std::string& path, std::uint64_t bytes);

/// A progress line with the rate and the remaining time.
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

/// One pair of token files to make.
struct DataPart {
  std::string prefix;
  DocumentList documents;
};

struct MakeOptions {
  std::vector<std::string> command;  // the command line as typed, starting with the program
  std::int64_t threads = 0;          // 0: every core
  std::string config_file = {};      // path of the --config file, or empty; outputs must not overwrite it
};

struct TokenFilesMade {
  std::vector<Json> outputs;  // describe_output() of each part
  double seconds = 0;
};

/// Writes token files and a provenance file for each of `parts`. Together, the parts must contain every document in
/// `inputs` once. Files get their final names only when all of them are complete. SIGINT, SIGTERM and SIGHUP terminate
/// the process and leave no files behind.
TokenFilesMade make_token_files(const MakeOptions& options, const std::vector<const IndexedDataset*>& inputs,
                                const MergeTraits& traits, const std::vector<DataPart>& parts, Console& console);

}  // namespace mtl
