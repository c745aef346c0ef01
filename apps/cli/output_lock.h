// One run at a time writes to a prefix.
#pragma once

#include <string>

namespace mtl {

/// Holds PREFIX.lock, which says who holds it and goes with its holder. A dead holder's lock does not count. On a file
/// system that knows no locks it holds nothing.
class OutputLock {
 public:
  /// Throws Error(failure) that names the holder, Error(io) when the folder cannot be written to.
  explicit OutputLock(const std::string& prefix);
  ~OutputLock() { release(); }
  OutputLock(const OutputLock&) = delete;
  void release();
  const std::string& path() const { return path_; }

 private:
  bool take(const std::string& prefix);
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace mtl
