// A deadline for calls that block inside MPI, which the watchdog cannot supervise: MPI_Init and MPI_Finalize, which
// wait for all ranks. Without a deadline, a rank that is stopped, or that ended before the call, would block all other
// ranks.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mtl {

class StartDeadline {
 public:
  /// Calls expired() on another thread, which has the caller's signal mask, unless this object is destroyed within
  /// `seconds`. Time during which the process does not run, for example because Slurm has suspended the job, does not
  /// count.
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
