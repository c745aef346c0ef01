// Gives token files their names: PREFIX.bin, PREFIX.idx and PREFIX.json together, and never a new one with an old.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace mtl {

/// Token files that are complete on the disk, but have their temporary names.
class SealedTokenFiles {
 public:
  /// `commit` gives the .bin its name, then the .idx; both were sealed. Writes and seals PREFIX.json.
  SealedTokenFiles(const std::string& prefix, const Json& provenance, std::function<void()> commit);

 private:
  friend void publish_token_files(std::vector<SealedTokenFiles>& files);
  std::string prefix_;
  AtomicFile record_;
  std::function<void()> commit_;
};

/// Gives all of them their names. The .idx of an earlier run goes first and the new one comes last: where one stands,
/// in whatever moment the run ends, the other two files are its own.
void publish_token_files(std::vector<SealedTokenFiles>& files);

}  // namespace mtl
