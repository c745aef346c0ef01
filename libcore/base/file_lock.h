// A lock file: one process at a time holds it, and its content names the holder.
//
// The kernel releases a flock with its owner's last descriptor, so the lock of a dead process does not count.
#pragma once

#include <optional>
#include <string>

namespace mtl {

class FileLock {
 public:
  /// Locks `path`, creating the file. Empty when another process holds it: *owner is then the holder's line. Throws
  /// Error(io) when the file cannot be opened, locked or written.
  static std::optional<FileLock> take(const std::string& path, std::string* owner);
  /// Releases the lock; the file remains.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  const std::string& path() const { return path_; }

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  bool is_current() const;
  void write_owner() const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace mtl
