// A group of ranks over MPI. Collectives in a group run one after another, in the order they were started. A collective
// reads its tensors when it runs, so its input can be the output of an earlier collective in the same group. Messages
// between two ranks are matched in starting order, separately for each direction and independently of collectives.
// Polling one operation advances all communicators in the session. The caller must wait for all Work before the session
// ends.
#pragma once

#include <deque>
#include <vector>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "device/memory.h"

namespace mtl {

class MpiProgress;

class MpiCommunicator final : public Communicator {
 public:
  /// Collective over the members. `ranks` lists all of them, including this rank, as ranks of the job.
  MpiCommunicator(MpiProgress& progress, std::vector<int> ranks, std::string name);
  MpiCommunicator(const MpiCommunicator&) = delete;

  int rank() const override { return link_.rank; }
  int size() const override { return link_.size; }
  std::string name() const override { return identity_.name; }
  void progress() override;
  void interrupt_others() override;

  // For MpiProgress, and for callers that hold its lock.

  /// Advances operations that have started.
  void advance();
  bool is_idle() const { return collectives_.empty() && messages_.empty(); }
  const GroupIdentity& identity() const { return identity_; }
  /// This group's handle in MpiWire.
  int handle() const { return link_.handle; }

 private:
  Work start(Stream& stream, const Transfer& transfer) override;

  MpiProgress& progress_;
  GroupIdentity identity_;
  Buffer staging_;
  GroupLink link_;
  std::deque<std::shared_ptr<Task>> collectives_;  // only the first is in progress
  std::vector<std::shared_ptr<Task>> messages_;    // all in progress
  std::int64_t started_ = 0;                       // collectives started so far
  std::vector<std::int64_t> sent_, received_;      // messages started so far, by peer and channel
};

}  // namespace mtl
