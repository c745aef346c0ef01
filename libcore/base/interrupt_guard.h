// Removes a tool's unfinished files when INT, TERM, HUP or XCPU ends it. INT and HUP remain ignored if they were when
// the process started.
//
// There is no signal handler. The signals are blocked, and a dedicated thread waits for them. When one arrives, the
// thread removes the registered files and ends the process with the same signal, so that a shell sees the cause (exit
// status 128 + signal number). From the removal on, no other thread can create a file, which would stay.
//
// PIPE and XFSZ are blocked too. So a closed stderr does not end a job after hours of work, and exceeding the file size
// limit causes an ordinary error, like a full disk.
#pragma once

#include <csignal>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace mtl {

/// Only one guard may exist at a time. Must be created before any other thread, so that all threads inherit the blocked
/// signals.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::string program);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// Registers a file or folder to remove when a signal arrives. It need not exist yet.
  void remove_on_signal(std::string path);
  /// Unregisters all files except lock files, so that a later signal does not remove them. Signals wait until the
  /// returned lock is released.
  [[nodiscard]] std::unique_lock<std::mutex> keep_files();

  /// Signals wait until the returned lock is released.
  [[nodiscard]] std::unique_lock<std::mutex> defer_signals() { return std::unique_lock(mutex_); }
  /// Registers a lock file that this process holds, and unregisters it. Signals must be deferred.
  void add_lock_file(const std::string& path) { lock_files_.push_back(path); }
  void forget_lock_file(const std::string& path) { std::erase(lock_files_, path); }

  /// Must be held while a file or folder is created, by any thread. Blocks forever once a signal's removal has begun.
  [[nodiscard]] static std::shared_lock<std::shared_mutex> allow_creation();

 private:
  void wait_for_signal();

  std::string program_;
  std::mutex mutex_;
  std::vector<std::string> files_, lock_files_;
  bool stopping_ = false;
  sigset_t blocked_before_;
  std::thread waiter_;
};

}  // namespace mtl
