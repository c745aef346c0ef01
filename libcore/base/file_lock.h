// A lock file: one process at a time holds it, and its content names the holder.
//
// The kernel releases a flock with its owner's last descriptor, so the lock of a dead process does not count. Some file
// systems that several machines share grant it on each machine separately, or not at all. Hence the content also has a
// number that the holder increases all the time (its beat): a lock that was granted although the file names a process
// of another machine is taken only when that process does not beat any more.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mtl {

struct FileLockTimes {
  double beat = 5;       // seconds between two beats
  double patience = 20;  // how long the holder on another machine is watched for one
};

class FileLock {
 public:
  /// Locks `path`, creating the file. Empty when another process holds it: *owner is then "pid PID on HOST since TIME".
  /// Throws SystemError when the file cannot be opened, locked or written.
  static std::optional<FileLock> take(const std::string& path, std::string* owner, const FileLockTimes& times = {});
  /// Releases the lock; the file remains, empty.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  const std::string& path() const;
  /// Throws Error(failure) when another process has taken the lock over: this one did not beat, as when it was
  /// suspended.
  void check_held() const;

 private:
  class Holder;
  explicit FileLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace mtl
