// The progress engine of a rank's communication: owns the MpiWire and the communicators over it, implements waiting,
// and runs the progress thread.
//
// A waiting rank polls: at first in a tight loop, then it yields its core between polls (ranks may outnumber cores),
// and after some idle milliseconds it sleeps between polls. The watchdog ensures that no rank waits forever.
//
// MPI progresses messages only inside its calls, so without help they would not progress while the rank computes. The
// progress thread polls in that time. It pauses between polls that complete no message; without operations in progress
// it only answers the letters of other ranks. One mutex guards everything here and in the communicators; threads hold
// it while they call MPI.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/device_watch.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_wire.h"
#include "comm/watchdog.h"

namespace mtl {

class MpiProgress {
 public:
  MpiProgress(int rank, int world);
  ~MpiProgress() { stop_progress_thread(); }
  MpiProgress(const MpiProgress&) = delete;

  /// Returns the lock; call in the rank's main thread before the functions that require it. Rethrows the progress
  /// thread's exception.
  std::unique_lock<std::mutex> enter();
  /// Labels operations with *progress, which the run updates, from now on; null: with the last progress that enter()
  /// read.
  void follow(const OperationProgress* progress);
  /// Also polls `devices` for faults from now on; null: stops polling. Throws Error if there are devices, but no
  /// progress thread.
  void watch(DeviceWatch* devices);
  /// Call when the task's handle is destroyed. If the task has not finished, an exception is unwinding the stack: halts
  /// all groups but the control group, and pauses the progress thread until this rank waits for the control group. The
  /// task's memory must still exist then.
  void abandon(const Task& task);
  /// Call when this rank has failed: halts its groups, and interrupts the waits of all other ranks.
  void interrupt_others();
  /// Joins the progress thread.
  void stop_progress_thread();

  // For callers that hold the lock.

  MpiWire& wire() { return wire_; }
  Watchdog& watchdog() { return watchdog_; }
  /// The run's progress at the last enter().
  const OperationProgress& at() const { return at_; }

  /// Creates a group, which lives as long as this object: messages in flight point into it. The first one is the
  /// control group.
  std::shared_ptr<MpiCommunicator> group(const std::vector<int>& ranks, std::string name);

  /// Progresses everything without blocking; returns true if a message completed.
  bool poll();
  /// Call before computing: the progress thread polls meanwhile.
  void progress_in_background();
  /// Returns when the task is finished. Throws Interrupted if a rank fails, unless the task is the control group's;
  /// throws CommunicationError with every rank's state after the watchdog's deadline.
  void wait(const Task& task);

 private:
  void run_progress_thread();
  void check_others();
  void advance_all();
  bool is_idle() const;
  bool is_control(const Task& task) const;
  void halt();

  MpiWire wire_;
  Watchdog watchdog_;
  const OperationProgress* progress_of_run_ = nullptr;
  OperationProgress at_;
  std::vector<std::shared_ptr<MpiCommunicator>> communicators_;
  DeviceWatch* devices_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wake_up_;
  bool is_polling_ = false, stopping_ = false;  // commands to the progress thread
  bool halted_ = false;                         // only the control group progresses
  bool abandoned_ = false;                      // memory of operations may be gone: the progress thread pauses
  std::exception_ptr thread_error_;             // thrown in the progress thread
  std::thread progress_thread_;                 // last member: the thread uses the others
};

}  // namespace mtl
