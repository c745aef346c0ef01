// Publishes token files: renames PREFIX.bin, PREFIX.idx and PREFIX.json, never a new file next to an old .idx.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace mtl {

/// Token files that are complete on the disk, under temporary names.
class SealedTokenFiles {
 public:
  /// Writes and seals PREFIX.json. `commit` renames the sealed .bin, then the sealed .idx.
  SealedTokenFiles(const std::string& prefix, const Json& provenance, std::function<void()> commit);

 private:
  friend void publish_token_files(std::vector<SealedTokenFiles>& files);
  std::string prefix_;
  AtomicFile record_;
  std::function<void()> commit_;
};

/// Renames all files. Removes each old .idx first and renames the new one last: whenever the process ends, an .idx that
/// exists belongs to the other two files.
void publish_token_files(std::vector<SealedTokenFiles>& files);

}  // namespace mtl
