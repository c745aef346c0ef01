// A deadline for calls that block inside MPI, out of the watchdog's reach: MPI_Init and MPI_Finalize, which wait for
// all ranks. A rank that is stopped, or that ended before the call, would block all others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mtl {

class StartDeadline {
 public:
  /// Calls `expired` in another thread, with the caller's signal mask, unless this object is destroyed within
  /// `seconds`. Time in which the process did not run, for example while Slurm suspends the job, does not count.
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
