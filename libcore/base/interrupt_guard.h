// Removes a tool's unfinished files when INT, TERM or HUP ends the tool.
//
// No signal handler is installed. Instead, the signals are blocked, and a dedicated thread waits for them. When a
// signal arrives, this thread removes the registered files and then ends the process with the same signal, so that a
// shell sees the cause (exit status 128 + the signal's number).
//
// PIPE and XFSZ are blocked too. A closed stderr therefore does not end a job after hours of work, and exceeding the
// file size limit causes an ordinary error, as a full disk does.
#pragma once

#include <csignal>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mtl {

/// At most one guard may exist at a time. Create the guard before all other threads, so that these threads inherit the
/// blocked signals.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::string program);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// Registers a file or folder to remove when a signal arrives. The file or folder need not exist yet.
  void remove_on_signal(std::string path);
  /// Unregisters all files, so that a later signal does not remove them. Signals are deferred while the returned lock
  /// is held.
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

/// Like write_file_atomic(), but a signal also removes the unfinished file. For programs that have no InterruptGuard.
void write_file_guarded(const std::string& path, std::string_view content, const std::string& program);

}  // namespace mtl
