// A deadline for MPI_Init and MPI_Finalize. These calls block inside MPI until all ranks arrive, and the watchdog
// cannot supervise them. Without a deadline, a rank that has stopped or ended would block all other ranks forever.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mtl {

class ArrivalDeadline {
 public:
  /// Calls expired() on another thread unless this object is destroyed within `seconds`. That thread has the caller's
  /// signal mask. Time when the process does not run does not count, for example while Slurm has suspended the job.
  ArrivalDeadline(double seconds, std::function<void()> expired);
  ~ArrivalDeadline();
  ArrivalDeadline(const ArrivalDeadline&) = delete;

 private:
  void watch(double seconds, const std::function<void()>& expired);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool arrived_ = false;
  std::thread watcher_;
};

}  // namespace mtl
