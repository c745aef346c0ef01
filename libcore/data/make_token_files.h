// Makes token files from the documents of other token files.
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

/// Returns the files of data sets: .bin, .idx and .json of each.
std::vector<std::string> files_of(const std::vector<const IndexedDataset*>& inputs);

/// Creates the folder of `path`. Throws Error(io) if its disk has less than `bytes` free.
void require_space(const std::string& path, std::uint64_t bytes);

/// A progress line with the rate and the time left.
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
  std::vector<std::string> command;  // as typed, the program first: for provenance
  int threads = 1;
  std::string config_file = {};  // of --config, or empty; no output may replace it
};

struct TokenFilesMade {
  std::vector<Json> outputs;  // describe_output of each part
  double seconds = 0;
};

/// Makes all parts, which together hold every document of `inputs` once, with a provenance file each. None appears
/// under its final name before all are complete; SIGINT, SIGTERM and SIGHUP end the process and leave no file.
TokenFilesMade make_token_files(const MakeOptions& options, const std::vector<const IndexedDataset*>& inputs,
                                const MergeTraits& traits, const std::vector<DataPart>& parts, Console& console);

}  // namespace mtl
