// What moves a rank's communication on: one wire, the communicators over it, and the waiting.
//
// A rank that waits polls: in a tight loop at first, then it gives its core to others between polls (ranks may
// outnumber cores), and after some idle milliseconds it sleeps a little. The watchdog sees to it that nobody waits for
// ever.
#pragma once

#include <memory>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/mpi_wire.h"
#include "comm/watchdog.h"
#include "device/step_state.h"

namespace mtl {

class MpiProgress {
 public:
  MpiProgress(int rank, int world);
  MpiProgress(const MpiProgress&) = delete;

  MpiWire& wire() { return wire_; }
  Watchdog& watchdog() { return watchdog_; }
  OperationProgress at() const {
    return state_ == nullptr ? OperationProgress{} : OperationProgress{state_->iteration, state_->micro_batch};
  }
  void follow(const StepState& state) { state_ = &state; }

  /// Made once and kept to the end: messages on their way point into it.
  std::shared_ptr<MpiCommunicator> group(const std::vector<int>& ranks, std::string name);

  /// Moves everything on, without waiting; true when a message came through.
  bool poll();
  /// Until the task is finished. Throws Error(failure) that tells who waits for what when that takes longer than the
  /// watchdog's deadline.
  void wait(const Task& task);

 private:
  MpiWire wire_;
  Watchdog watchdog_;
  const StepState* state_ = nullptr;
  std::vector<std::shared_ptr<MpiCommunicator>> communicators_;
};

}  // namespace mtl
