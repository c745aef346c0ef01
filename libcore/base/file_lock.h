// A lock file. Only one process at a time can hold the lock; the file names the holder.
//
// The kernel releases a flock when its owner's last descriptor is closed, so a dead process holds no lock. But some
// shared file systems grant a flock per machine, or do not support it at all. So the file also contains a counter, the
// beat, which the holder keeps incrementing. If the file names a process on another machine, or flock is unsupported,
// we take the lock only after that process's beat has stopped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/descriptor.h"

namespace mtl {

struct FileLockTimes {
  double beat = 5;       // seconds between two beats
  double patience = 20;  // seconds to wait for a beat from the process named in the file
};

class FileLock {
 public:
  /// Locks the file `path`, creating it if necessary. Returns null if another process holds the lock, and sets *owner
  /// to "pid PID on HOST since TIME". Throws SystemError if the file cannot be opened, locked or written, Error(io) if
  /// other processes keep replacing it, and Error(usage) if it is not an mtl lock file. If `no_signal` is given,
  /// unlocks it while waiting for a beat in another process's file.
  static std::unique_ptr<FileLock> take(const std::string& path, std::string* owner, const FileLockTimes& times = {},
                                        std::unique_lock<std::mutex>* no_signal = nullptr);
  /// Releases the lock. The file stays, but empty.
  ~FileLock();
  FileLock(const FileLock&) = delete;

  const std::string& path() const { return path_; }
  /// Throws Error(failure) if another process has taken the lock. That can happen if this process wrote no beats for a
  /// while, for example because it was suspended. Throws Error(io) if the file cannot be read.
  void check_held() const;

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  bool is_current() const;
  void start_beating(double beat_seconds);
  bool write_beat(std::int64_t beat);

  std::string path_, owner_;
  Descriptor descriptor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;    // guarded by mutex_
  std::thread beat_thread_;  // writes the beats, once we hold the lock
};

}  // namespace mtl
