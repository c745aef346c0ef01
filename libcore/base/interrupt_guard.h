// Removes the unfinished files of a tool that INT, TERM or HUP ends.
//
// No handler is installed: the signals are blocked, and a thread of its own waits for them. It removes the files named
// to it and ends the process by the same signal, wherever the other threads are, so that a shell sees what happened
// (exit status 128 + the signal's number).
//
// PIPE and XFSZ are blocked too: a reader of stderr that leaves does not end hours of work, and a file that may not
// grow further is an error like that of a full disk.
#pragma once

#include <csignal>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mtl {

/// At most one at a time; to be made before other threads are, which inherit what is blocked.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::string program);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// A signal removes this file or folder, which need not exist yet.
  void remove_on_signal(std::string path);
  /// While the lock is held, signals are deferred. Files named before are then kept.
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

/// Writes a file as write_file_atomic() does; a signal meanwhile removes what is unfinished. For programs that have no
/// guard yet.
void write_file_guarded(const std::string& path, std::string_view content, const std::string& program);

}  // namespace mtl
