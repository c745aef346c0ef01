// Publishes token files: renames PREFIX.bin, PREFIX.idx and PREFIX.json to their final names. New files never appear
// next to an old .idx.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "data/token_file_pair.h"

namespace mtl {

/// Token files that are complete on disk but still have temporary names.
class SealedTokenFiles {
 public:
  /// Writes and seals PREFIX.json. `files` must be sealed, and must outlive this object.
  SealedTokenFiles(const Json& provenance, TokenFilePair& files);

 private:
  friend void publish_token_files(std::vector<SealedTokenFiles>& files);
  AtomicFile record_;
  TokenFilePair* files_;
};

/// Renames all files to their final names. First removes every old .idx; renames each new .idx after the other two
/// files. So at any time, even if the process is killed or the power fails, an existing .idx belongs to the .bin and
/// .json next to it.
void publish_token_files(std::vector<SealedTokenFiles>& files);

}  // namespace mtl
