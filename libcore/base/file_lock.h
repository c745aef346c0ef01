// A lock file: one process at a time holds it, and its content names the holder.
//
// The kernel releases a flock when its owner's last descriptor closes, so a dead process holds no lock. Some shared
// file systems grant a flock on each machine separately, or have none. Hence the content also has a counter that the
// holder increments regularly (its beat): if the file names a process of another machine, or any process where there is
// no flock, the lock is taken only if that process no longer beats.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mtl {

struct FileLockTimes {
  double beat = 5;       // seconds between two beats
  double patience = 20;  // seconds to wait for a beat of the process that the file names
};

class FileLock {
 public:
  /// Locks `path`, creating the file. Returns nullopt if another process holds it; *owner is then "pid PID on HOST
  /// since TIME". Throws SystemError if the file cannot be opened, locked or written; Error(io) if other processes keep
  /// replacing it; Error(usage) if it is not an mtl lock file.
  static std::optional<FileLock> take(const std::string& path, std::string* owner, const FileLockTimes& times = {});
  /// Releases the lock; the file remains, empty.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  const std::string& path() const;
  /// Throws Error(failure) if another process has taken over the lock because this one did not beat, for example while
  /// suspended.
  void check_held() const;

 private:
  class Holder;
  explicit FileLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace mtl
