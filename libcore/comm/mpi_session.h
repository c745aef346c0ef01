// A job of several ranks, from MPI_Init to MPI_Finalize. The rank's main thread creates one session if
// launched_ranks() finds more than one rank; a world of one needs no session.
//
// When a rank fails the whole job must end: report, then abort(). The destructor finalizes MPI after a barrier of all
// ranks; during stack unwinding it aborts the job instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/operation_label.h"

namespace mtl {

class MpiProgress;
class NcclTransport;

/// Returns the name of this process's host, for messages.
std::string host_name();

class MpiSession {
 public:
  explicit MpiSession(const RankEnvironment& launched);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;

  int rank() const { return launched_.rank; }
  int world() const { return launched_.world; }
  const RankEnvironment& launched() const { return launched_; }
  /// Hosts by rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  const std::string& host() const { return hosts_[rank()]; }

  /// Creates the group of these ranks of the job, in this order; all of them pass the same list and name. A group of
  /// one is a SelfCommunicator. The group must not outlive the session.
  std::shared_ptr<Communicator> group(const std::vector<int>& ranks, const std::string& name);

  /// Creates a group for tensors in GPU memory. Collective over all ranks of the job; each passes its own group.
  std::shared_ptr<Communicator> gpu_group(const std::vector<int>& ranks, const std::string& name);

  /// The group of all ranks; a failed rank does not interrupt waits in it. See ProcessGroups.
  std::shared_ptr<Communicator> control_group() const { return control_; }

  /// Sets the longest wait, 600 s by default. A longer one throws an error with every rank's state.
  void set_deadline(double seconds);
  /// Sets the receiver of warnings about waits that slow storage prolongs.
  void warn_with(std::function<void(const std::string&)> warn);
  /// Makes messages include *progress, the iteration and micro-batch of the run, from now on; null: keeps the last
  /// value. See Followed.
  void follow(const OperationProgress* progress);

  /// Waits for all ranks; throws after the deadline.
  void barrier();
  /// Calls barrier() and MPI_Finalize; the session is unusable afterwards. MPI_Finalize waits for all ranks: if it
  /// takes longer than `seconds`, another thread calls `expired`, which must end the process.
  void finish(double seconds, std::function<void()> expired);
  /// Aborts the whole job with this exit status.
  [[noreturn]] void abort(int code);

 private:
  RankEnvironment launched_;
  int exceptions_;
  std::unique_ptr<MpiProgress> progress_;
  std::unique_ptr<NcclTransport> gpus_;  // null until a group of GPUs exists
  std::shared_ptr<Communicator> control_;
  std::vector<std::string> hosts_;
  bool finished_ = false;
};

/// While one exists, the session's messages include the run's current iteration and micro-batch.
class Followed {
 public:
  /// Has no effect if `session` is null.
  Followed(MpiSession* session, const OperationProgress& progress) : session_(session) {
    if (session_ != nullptr) session_->follow(&progress);
  }
  ~Followed() {
    if (session_ != nullptr) session_->follow(nullptr);
  }
  Followed(const Followed&) = delete;

 private:
  MpiSession* session_;
};

}  // namespace mtl
