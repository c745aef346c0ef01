// The progress engine for a rank's communication. MpiProgress owns the MpiWire and the communicators that use it,
// implements waiting, and runs the progress thread.
//
// A waiting rank polls, at first in a tight loop. After a few idle polls, it yields its core between polls, because
// there may be more ranks than cores. After some idle milliseconds, it sleeps between polls. The watchdog ensures that
// no rank waits forever.
//
// MPI transfers messages only inside MPI calls, so they would make no progress while the rank computes. We therefore
// poll on the progress thread during computations. The thread pauses after each poll in which no message completes, for
// longer and longer until a message completes or an operation starts: it shares a core with the computation. If no
// operations are in progress, it only answers control messages from other ranks.
//
// A mutex guards this object and its communicators. A thread must hold it to call MPI.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/mpi_wire.h"
#include "comm/watchdog.h"

namespace mtl {

class NcclTransport;

class MpiProgress {
 public:
  MpiProgress(int rank, int world);
  ~MpiProgress() { stop_progress_thread(); }
  MpiProgress(const MpiProgress&) = delete;

  /// Acquires this object's lock and returns it. May be called only on the main thread. If the progress thread has
  /// thrown an exception, rethrows it.
  std::unique_lock<std::mutex> enter();
  /// From now on, labels operations with *progress, which the run updates and each enter() reads. If `progress` is
  /// null, operations keep the label that enter() last read.
  void follow(const OperationProgress* progress);
  /// From now on, also polls operations between GPUs for faults, which needs the progress thread: throws Error without
  /// it. A null `gpus` ends the polling.
  void watch(NcclTransport* gpus);
  /// Must be called when a task's handle is destroyed. An unfinished task is allowed only during stack unwinding. We
  /// then halt all groups except the control group, and pause the progress thread until this rank waits in the control
  /// group. The task's memory must still exist when this is called.
  void abandon(const Task& task);
  /// Must be called when this rank has failed. Halts all groups on this rank except the control group, and interrupts
  /// waits on all other ranks.
  void interrupt_others();
  void stop_progress_thread();

  // Callers of these functions must hold the lock.

  MpiWire& wire() { return wire_; }
  Watchdog& watchdog() { return watchdog_; }
  /// Returns the run's progress, as last read by enter().
  const OperationProgress& at() const { return at_; }

  /// Creates a group. The first one is the control group. Groups live as long as this object, because messages in
  /// flight point into them.
  std::shared_ptr<MpiCommunicator> group(const std::vector<int>& ranks, std::string name);

  /// Advances all operations without blocking. Returns true if a message completed.
  bool poll();
  /// Should be called before a computation, and when an operation has started. The progress thread then polls until no
  /// operations are in progress.
  void progress_in_background();
  /// Blocks until the task has finished. Throws Interrupted if a rank fails, unless the task belongs to the control
  /// group. After the watchdog's deadline, throws a CommunicationError that lists every rank's state.
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
  NcclTransport* gpus_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wake_up_;
  bool is_polling_ = false, has_started_ = false, stopping_ = false;  // flags for the progress thread
  bool halted_ = false;                                               // only the control group makes progress
  bool abandoned_ = false;           // pauses the progress thread: operations' memory may be gone
  std::exception_ptr thread_error_;  // exception that ended the progress thread
  std::thread progress_thread_;      // declared last because it uses the other members
};

}  // namespace mtl
