// Removes a tool's unfinished files when INT, TERM or HUP ends it.
//
// No handler is installed: the signals are blocked, and a dedicated thread waits for them. It removes the registered
// files and ends the process with the same signal, so that a shell sees what happened (exit status 128 + the signal's
// number).
//
// PIPE and XFSZ are blocked too: a closed stderr does not end hours of work, and exceeding the file size limit is an
// error like a full disk.
#pragma once

#include <csignal>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mtl {

/// At most one at a time. Create it before other threads, so that they inherit the blocked signals.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::string program);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// Registers a file or folder that a signal removes; it need not exist yet.
  void remove_on_signal(std::string path);
  /// Unregisters all files, so that a signal keeps them. Signals are deferred while the returned lock is held.
  [[nodiscard]] std::unique_lock<std::mutex> keep_files();

 private:
  void wait_for_signal();

  std::string program_;
  std::mutex mutex_;
  std::vector<std::string> files_;
  bool stopping_ = false;
  sigset_t blocked_before_;
  std::thread waiter_;
};

/// Writes a file like write_file_atomic(); a signal removes the unfinished file. For programs without a guard.
void write_file_guarded(const std::string& path, std::string_view content, const std::string& program);

}  // namespace mtl
