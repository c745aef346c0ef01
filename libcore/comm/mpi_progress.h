// The progress engine for a rank's communication. MpiProgress owns the MpiWire and the communicators that use it,
// implements waiting, and runs the progress thread.
//
// A waiting rank polls. At first, it polls in a tight loop. Then it yields its core between polls, because there may be
// more ranks than cores. After some idle milliseconds, it sleeps between polls. The watchdog ensures that no rank waits
// forever.
//
// MPI transfers messages only inside MPI calls, so they would make no progress while the rank computes. Therefore the
// progress thread polls during computations. It pauses after each poll that completes no message. While no operations
// are in progress, it only answers other ranks' letters. A mutex guards this object and its communicators. A thread
// must hold it to call MPI.
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

  /// Acquires and returns this object's lock. May be called only on the rank's main thread. If the progress thread has
  /// thrown an exception, rethrows it.
  std::unique_lock<std::mutex> enter();
  /// From now on, labels operations with *progress, which the run updates and each enter() reads. If `progress` is
  /// null, operations keep the label that enter() read last.
  void follow(const OperationProgress* progress);
  /// From now on, also polls `devices` for faults, unless it is null. Throws Error if `devices` is not null and there
  /// is no progress thread.
  void watch(DeviceWatch* devices);
  /// Must be called when a task's handle is destroyed. If the task has not finished, an exception must be unwinding the
  /// stack. In that case, halts all groups except the control group, and pauses the progress thread until this rank
  /// waits for the control group. The task's memory must still exist at that time.
  void abandon(const Task& task);
  /// Must be called when this rank has failed. Halts this rank's groups, except for the control group, and interrupts
  /// all other ranks' waits.
  void interrupt_others();
  /// Stops and joins the progress thread.
  void stop_progress_thread();

  // Callers of the functions below must hold the lock.

  MpiWire& wire() { return wire_; }
  Watchdog& watchdog() { return watchdog_; }
  /// Returns the run's progress, as read by the last enter().
  const OperationProgress& at() const { return at_; }

  /// Creates a group. It lives as long as this object, because messages in flight hold pointers into it. The first
  /// group created is the control group.
  std::shared_ptr<MpiCommunicator> group(const std::vector<int>& ranks, std::string name);

  /// Lets all operations make progress without blocking. Returns true if a message completed.
  bool poll();
  /// Should be called before a computation. The progress thread then polls until no operations are in progress.
  void progress_in_background();
  /// Blocks until the task has finished. Throws Interrupted if a rank fails, unless the task belongs to the control
  /// group. After the watchdog's deadline, throws a CommunicationError that lists the state of every rank.
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
  bool is_polling_ = false, stopping_ = false;  // tell the progress thread to poll, or to stop
  bool halted_ = false;                         // only the control group makes progress
  bool abandoned_ = false;                      // the progress thread pauses, because operations' memory may be gone
  std::exception_ptr thread_error_;             // the exception that ended the progress thread, if any
  std::thread progress_thread_;                 // declared last, because the thread uses the other members
};

}  // namespace mtl
