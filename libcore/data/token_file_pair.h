// PREFIX.bin and PREFIX.idx while they are written.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"

namespace mtl {

enum class DataType : std::uint8_t;

/// A pair of token files that has been written: counts, sizes in bytes, and XXH3 hashes of the entire files.
struct TokenFilesWritten {
  std::string prefix;
  DataType type{};
  std::int64_t documents = 0, sequences = 0, tokens = 0;
  std::uint64_t bin_bytes = 0, bin_hash = 0, idx_bytes = 0, idx_hash = 0;
};

/// Two files that get their final names only in commit().
struct TokenFilePair {
  TokenFilePair(const std::string& prefix, DataType type)
      : written{.prefix = prefix, .type = type}, bin(prefix + ".bin"), idx(prefix + ".idx") {}
  /// Writes both files completely to disk, so that commit() only renames them, and multiple pairs can be committed
  /// together. Sets the sizes and hashes in `written`; the writer sets the counts.
  void seal() {
    bin.seal();
    idx.seal();
    written.bin_bytes = bin.out().bytes();
    written.bin_hash = bin.out().hash();
    written.idx_bytes = idx.out().bytes();
    written.idx_hash = idx.out().hash();
  }
  /// Renames both files, the .idx last. So if an .idx exists, its .bin is complete.
  void commit() {
    bin.commit();
    idx.commit();
  }
  TokenFilesWritten written;
  AtomicFile bin, idx;
};

}  // namespace mtl
