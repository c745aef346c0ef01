// A lock file: one process at a time holds it, and its content names the holder.
//
// The kernel releases a flock with its owner's last descriptor, so the lock of a dead process does not count. Some
// shared file systems grant it on each machine separately, or not at all. Hence the content also has a counter that the
// holder increases regularly (its beat): a lock that was granted although the file names a process of another machine
// is taken only if that process no longer beats.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mtl {

struct FileLockTimes {
  double beat = 5;       // seconds between two beats
  double patience = 20;  // seconds to wait for a beat of a holder on another machine
};

class FileLock {
 public:
  /// Locks `path`, creating the file. Empty if another process holds it: *owner is then "pid PID on HOST since TIME".
  /// Throws SystemError if the file cannot be opened, locked or written; Error(usage) if it is not an mtl lock file.
  static std::optional<FileLock> take(const std::string& path, std::string* owner, const FileLockTimes& times = {});
  /// Releases the lock; the file remains, empty.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  const std::string& path() const;
  /// Throws Error(failure) if another process has taken over the lock because this one did not beat, as when suspended.
  void check_held() const;

 private:
  class Holder;
  explicit FileLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace mtl
