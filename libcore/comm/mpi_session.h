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

/// This process's host, for messages.
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

  /// Creates the group of these ranks of the job, in this order; all of them call with the same list and name. A group
  /// of one is a SelfCommunicator. Valid as long as the session.
  std::shared_ptr<Communicator> group(const std::vector<int>& ranks, const std::string& name);

  /// Creates a group for tensors in GPU memory. Collective over all ranks of the job; each passes its own group.
  std::shared_ptr<Communicator> gpu_group(const std::vector<int>& ranks, const std::string& name);

  /// The group of all ranks whose waits a failed rank does not interrupt; see ProcessGroups.
  std::shared_ptr<Communicator> control_group() const { return control_; }

  /// A wait longer than this throws an error with every rank's state. Default 600 s.
  void set_deadline(double seconds);
  /// `warn` receives warnings of a wait prolonged by slow storage.
  void warn_with(std::function<void(const std::string&)> warn);
  /// Messages include *progress, the iteration and micro-batch of the run, from now on; null: without it. See Followed.
  void follow(const OperationProgress* progress);

  /// Waits for all ranks, at most until the deadline.
  void barrier();
  /// Calls barrier() and MPI_Finalize; the session is unusable afterwards. MPI_Finalize waits for all ranks: after
  /// `seconds`, another thread calls `expired`, which must end the process.
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

/// While it exists, the session's messages include the run's iteration and micro-batch.
class Followed {
 public:
  /// `session` null: has no effect.
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
