// A job with multiple ranks, from MPI_Init to MPI_Finalize. If launched_ranks() finds more than one rank, each rank's
// main thread creates a session. A single rank does not need one.
//
// When a rank fails, the entire job must end: the caller reports the error and then calls abort(). The destructor
// finalizes MPI after a barrier over all ranks. During stack unwinding, it aborts the job instead.
#pragma once

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

class MpiSession {
 public:
  explicit MpiSession(const RankEnvironment& launched);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;

  int rank() const { return launched_.rank; }
  int world() const { return launched_.world; }
  const RankEnvironment& launched() const { return launched_; }
  /// Host names, by rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  const std::string& host() const { return hosts_[rank()]; }

  /// Creates a group from `ranks`, which are ranks of the job, in this order. Collective over the members, which must
  /// all pass the same list and name. A one-rank group is a SelfCommunicator. The group must not outlive the session.
  std::shared_ptr<Communicator> group(const std::vector<int>& ranks, const std::string& name);

  /// Creates a group for tensors in GPU memory. Collective over all ranks of the job. Each rank passes the members of
  /// its own group. Members can send messages only on `paths`.
  std::shared_ptr<Communicator> gpu_group(const std::vector<int>& ranks, const std::string& name,
                                          MessagePaths paths = MessagePaths::none);

  /// Returns the group that contains all ranks. A failed rank does not interrupt waits in this group. See
  /// ProcessGroups::world().
  std::shared_ptr<Communicator> control_group() const { return control_; }

  /// Sets how long a rank may wait for one operation. The default is 600 s. After that, the wait throws an error that
  /// lists every rank's state.
  void set_deadline(double seconds);
  /// Sets a function to call with a warning when slow storage prolongs a wait.
  void warn_with(std::function<void(const std::string&)> warn);
  /// From now on, error messages include *progress, the run's current iteration and micro-batch. If `progress` is null,
  /// they keep the last value. See ReportedProgress.
  void follow(const OperationProgress* progress);

  /// Blocks until all ranks have called barrier(). Throws after the deadline.
  void barrier();
  /// Calls barrier(), closes GPU groups and finalizes MPI. The session is unusable afterwards. MPI_Finalize waits for
  /// all ranks. If it takes longer than `seconds`, another thread calls expired(), which must terminate the process.
  void finish(double seconds, std::function<void()> expired);
  /// Aborts the entire job with exit status `code`.
  [[noreturn]] void abort(int code);

 private:
  RankEnvironment launched_;
  int exceptions_;
  std::unique_ptr<MpiProgress> progress_;
  std::unique_ptr<NcclTransport> gpus_;  // null until a GPU group is created
  std::shared_ptr<Communicator> control_;
  std::vector<std::string> hosts_;
  bool finished_ = false;
};

/// While a ReportedProgress exists, the session's error messages include the run's current iteration and micro-batch.
class ReportedProgress {
 public:
  /// The caller must keep `progress` alive. Does nothing if `session` is null.
  ReportedProgress(MpiSession* session, const OperationProgress& progress) : session_(session) {
    if (session_ != nullptr) session_->follow(&progress);
  }
  ~ReportedProgress() {
    if (session_ != nullptr) session_->follow(nullptr);
  }
  ReportedProgress(const ReportedProgress&) = delete;

 private:
  MpiSession* session_;
};

}  // namespace mtl
