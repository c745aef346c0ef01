// Writes new token files from the documents of others: the core of mtl-data's merge, split and shuffle.
//
// Tokens, lengths and modes are copied without decoding, so that every document is copied byte for
// byte, whatever its type. Memory is bounded: the list of documents is walked once for the .bin and once for each array
// of the .idx, and nothing is kept of it but one buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Documents [begin, end) of a data set.
struct DocumentRange {
  const IndexedDataset* data;
  std::int64_t begin, end;
};

/// Ranges one after another; `at(i)` may be called several times for 0 <= i < size, in any order, by one thread.
struct DocumentList {
  std::int64_t size = 0;
  std::function<DocumentRange(std::int64_t)> at;
};
DocumentList list_of(std::vector<DocumentRange> ranges);

/// Called repeatedly with the bytes of the .bin that were written since the last call.
using CopyProgress = std::function<void(std::uint64_t bytes)>;

/// Writes PREFIX.bin and PREFIX.idx. Neither appears under its name before commit(); without it nothing is left.
class DocumentCopy {
 public:
  DocumentCopy(const std::string& prefix, DataType type, bool has_modes);

  /// Writes all documents of the list, once. All data sets must be of the type given, and have modes or have none (one
  /// without sequences passes for either); else Error(bad_data). `threads` fetch what lies scattered; the outcome does
  /// not depend on their number.
  void write(const DocumentList& list, int threads, const CopyProgress& progress);
  /// Gives both files their names, the .idx last: if it exists, the .bin is complete.
  void commit();

  const std::string& prefix() const { return prefix_; }
  DataType type() const { return type_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t tokens() const { return bin_bytes() / item_size(type_); }
  std::uint64_t bin_bytes() const { return bin_bytes_; }
  /// Call after write().
  TokenFilesWritten written() const {
    return {prefix_, type_, documents_, sequences_, tokens(), bin_bytes_, bin_hash_, idx_bytes_, idx_hash_};
  }

 private:
  void write_bin(const DocumentList& list, int threads, const CopyProgress& progress);
  void write_idx(const DocumentList& list);

  std::string prefix_;
  DataType type_;
  bool has_modes_;
  AtomicFile bin_, idx_;
  std::int64_t documents_ = 0, sequences_ = 0;
  std::uint64_t bin_bytes_ = 0, idx_bytes_ = 0, bin_hash_ = 0, idx_hash_ = 0;
};

}  // namespace mtl
