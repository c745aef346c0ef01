// Writes token files built from documents in existing token files: the core of mtl-data's merge, split and shuffle.
//
// Lengths and modes are copied byte for byte, and so are tokens of the new files' type; other tokens are converted.
// Memory use is bounded, because we need only fixed-size buffers: write() traverses the list once to check it, once to
// write the .bin, and once for each array in the .idx.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Documents [begin, end) in a data set.
struct DocumentRange {
  const IndexedDataset* data;
  std::int64_t begin, end;
};

/// A list of `size` ranges. at(i) returns range i, 0 <= i < size. It may be called multiple times for each i, in any
/// order, but only by one thread.
struct DocumentList {
  std::int64_t size = 0;
  std::function<DocumentRange(std::int64_t)> at;
};
DocumentList list_of(std::vector<DocumentRange> ranges);

/// Called repeatedly with the number of bytes written to the .bin since the previous call.
using CopyProgress = std::function<void(std::uint64_t bytes)>;

/// Writes PREFIX.bin and PREFIX.idx. They get their final names only in files().commit(). Without it, neither file is
/// kept.
class DocumentCopy {
 public:
  DocumentCopy(const std::string& prefix, DataType type, bool has_modes);

  /// Writes all documents in `list`. Must be called only once. Throws Error(bad_data) if a token does not fit the
  /// constructor's type, if only one of the two types is an integer type, or if a data set that has sequences does not
  /// match the constructor's `has_modes`, and Error(io) if a file cannot be written. Reads through memory maps:
  /// afterwards, call every data set's check_sizes(). Up to `threads` threads read small, scattered ranges in parallel;
  /// the output does not depend on `threads`.
  void write(const DocumentList& list, int threads, const CopyProgress& progress);
  /// Returns the files, which write() has sealed, to commit() them.
  TokenFilePair& files() { return files_; }

  /// Describes the files. Must be called after write().
  const TokenFilesWritten& written() const { return files_.written; }

 private:
  void write_bin(const DocumentList& list, int threads, const CopyProgress& progress);
  void write_idx(const DocumentList& list);

  bool has_modes_;
  TokenFilePair files_;
};

}  // namespace mtl
