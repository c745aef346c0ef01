// PREFIX.bin and PREFIX.idx while they are written.
#pragma once

#include <string>

#include "base/files.h"

namespace mtl {

/// Two files that get their final names only in commit().
struct TokenFilePair {
  explicit TokenFilePair(const std::string& prefix) : bin(prefix + ".bin"), idx(prefix + ".idx") {}
  /// Writes both files completely to disk, so that commit() only renames them, and multiple pairs can be committed
  /// together.
  void seal() {
    bin.seal();
    idx.seal();
  }
  /// Renames both files, the .idx last. So if an .idx exists, its .bin is complete.
  void commit() {
    bin.commit();
    idx.commit();
  }
  AtomicFile bin, idx;
};

}  // namespace mtl
