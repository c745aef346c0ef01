// A lock file. Only one process at a time can hold the lock, and the content of the file names the holder.
//
// The kernel releases a flock when its owner's last descriptor is closed, so a dead process holds no lock. However,
// some shared file systems grant a flock on each machine separately, or do not support flock. Therefore the file also
// contains a counter, the beat, which the holder increments regularly. If the file names a process on another machine,
// or if the file system does not support flock, the lock is taken over only if the beat of the named process has
// stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mtl {

struct FileLockTimes {
  double beat = 5;       // seconds between two beats
  double patience = 20;  // seconds to wait for a beat of the process named in the file
};

class FileLock {
 public:
  /// Locks the file `path`, which is created if it does not exist. Returns nullopt if another process holds the lock;
  /// *owner is then "pid PID on HOST since TIME". Throws SystemError if the file cannot be opened, locked or written,
  /// Error(io) if other processes keep replacing the file, and Error(usage) if the file is not an mtl lock file.
  static std::optional<FileLock> take(const std::string& path, std::string* owner, const FileLockTimes& times = {});
  /// Releases the lock. Leaves the file in place, but empty.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  const std::string& path() const;
  /// Throws Error(failure) if another process has taken over the lock. This can happen if this process wrote no beats
  /// for a while, for example because it was suspended.
  void check_held() const;

 private:
  class Holder;
  explicit FileLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace mtl
