// What moves a rank's communication on: one wire, the communicators over it, the waiting, and a thread for the time in
// between.
//
// A rank that waits polls: in a tight loop at first, then it gives its core to others between polls (ranks may
// outnumber cores), and after some idle milliseconds it sleeps a little. The watchdog ensures that no rank waits for
// ever.
//
// MPI moves messages inside its calls only, so what was started would stand still while the rank computes. A thread,
// the mover, polls in that time; it naps between polls that moved nothing, and when nothing is on its way it only
// answers the letters of other ranks. One mutex guards everything here and in the communicators: a thread that calls
// MPI holds it.
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
  ~MpiProgress() { stop_mover(); }
  MpiProgress(const MpiProgress&) = delete;

  /// For the rank's own thread, before it uses anything below. Rethrows the mover's exception.
  std::unique_lock<std::mutex> enter();
  /// `progress` is what the run writes from now on; null: nothing.
  void follow(const OperationProgress* progress);
  /// Looks after these, too; null: no longer. Throws Error when there is no thread that could.
  void watch(DeviceWatch* devices);
  /// Nothing will wait for the task any more. When it has not finished, an exception is on its way and the memory that
  /// the task moves may be freed next: every group but the control group is halted, and the mover moves nothing until
  /// this rank waits for the control group, for which that memory must still exist.
  void let_go(const Task& task);
  /// This rank failed: halts its groups, and interrupts the waits of all other ranks.
  void interrupt_others();
  /// The mover is gone afterwards.
  void stop_mover();

  // The rest is for those who hold the lock.

  MpiWire& wire() { return wire_; }
  Watchdog& watchdog() { return watchdog_; }
  /// Where training stood when enter() was last called.
  const OperationProgress& at() const { return at_; }

  /// Made once and kept to the end: messages on their way point into it. The first one is the control group.
  std::shared_ptr<MpiCommunicator> group(const std::vector<int>& ranks, std::string name);

  /// Moves everything on, without waiting; true when a message came through.
  bool poll();
  /// The rank is about to compute: the progress thread moves messages meanwhile.
  void move_meanwhile();
  /// Until the task is finished. Throws Interrupted when another rank fails, unless the task is the control group's,
  /// and CommunicationError with who waits for what when it takes longer than the watchdog's deadline.
  void wait(const Task& task);

 private:
  void keep_moving();
  void look();
  void advance_all();
  bool nothing_on_its_way() const;
  bool is_control(const Task& task) const;
  void halt();

  MpiWire wire_;
  Watchdog watchdog_;
  const OperationProgress* progress_of_run_ = nullptr;
  OperationProgress at_;
  std::vector<std::shared_ptr<MpiCommunicator>> communicators_;
  DeviceWatch* devices_ = nullptr;

  std::mutex mutex_;
  std::condition_variable mover_wakes_;
  bool moving_ = false, stopping_ = false;  // what the mover is to do
  bool halted_ = false;                     // only the control group moves
  bool abandoned_ = false;                  // the memory of what is on its way may be gone: the mover moves nothing
  std::exception_ptr found_;                // by the mover
  std::thread mover_;                       // the last member: it uses the others
};

}  // namespace mtl
