// A deadline for what blocks inside MPI, where no watchdog of ours can look: its start, which waits for every rank that
// the launcher announced, and its end. A rank that is stopped, or that ends without ever having come there, would hold
// up all others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mtl {

class StartDeadline {
 public:
  /// Calls `expired`, in a thread of its own, unless it is destroyed within so many seconds; time in which the process
  /// did not run, as when Slurm suspends the job, does not count. The thread has the caller's signal mask.
  StartDeadline(double seconds, std::function<void()> expired);
  ~StartDeadline();
  StartDeadline(const StartDeadline&) = delete;

 private:
  void watch(double seconds, const std::function<void()>& expired);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool arrived_ = false;
  std::thread watcher_;
};

}  // namespace mtl
