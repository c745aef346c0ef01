// A job of several ranks, from MPI_Init to MPI_Finalize. Made once, by the rank's own thread, when
// launched_ranks() says that there are others; a world of one needs no session.
//
// When a rank fails the whole job must end: report, then abort(). The destructor finalizes after a last meeting of all
// ranks; while an exception passes through it aborts the job instead.
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

/// Of this process, for messages.
std::string host_name();

class MpiSession {
 public:
  explicit MpiSession(const RankEnvironment& launched);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;

  int rank() const { return launched_.rank; }
  int world() const { return launched_.world; }
  const RankEnvironment& launched() const { return launched_; }
  /// By rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  const std::string& host() const { return hosts_[rank()]; }

  /// The group of these ranks of the job, in this order; for all of them, with the same list and name. A group of one
  /// is a SelfCommunicator. Valid as long as the session.
  std::shared_ptr<Communicator> group(const std::vector<int>& ranks, const std::string& name);

  /// The same of GPUs: tensors are in their memory. Collective over all ranks of the job: each names its own group.
  std::shared_ptr<Communicator> gpu_group(const std::vector<int>& ranks, const std::string& name);

  /// The group of all ranks whose waits are never interrupted; see ProcessGroups.
  std::shared_ptr<Communicator> everyone() const { return control_; }

  /// A wait longer than this is an error that says who waits for what. 600 s to begin with.
  void set_deadline(double seconds);
  /// Receives warnings of a wait that lasts longer because of slow storage.
  void warn_with(std::function<void(const std::string&)> warn);
  /// These messages say where training stands, while `progress` lives; null afterwards. See Followed.
  void follow(const OperationProgress* progress);

  /// Waits for all ranks to come here, up to the deadline.
  void meet();
  /// Meets, then ends MPI. Nothing may be used afterwards. MPI's end waits for all ranks: when it takes longer than
  /// `seconds`, `expired` is called in a thread of its own, which is to end the process.
  void finish(double seconds, std::function<void()> expired);
  /// Ends the whole job with this exit status.
  [[noreturn]] void abort(int code);

 private:
  RankEnvironment launched_;
  int exceptions_;
  std::unique_ptr<MpiProgress> progress_;
  std::unique_ptr<NcclTransport> gpus_;  // null until a group of GPUs is made
  std::shared_ptr<Communicator> control_;
  std::vector<std::string> hosts_;
  bool finished_ = false;
};

/// Messages of a session say where training stands as long as this lives.
class Followed {
 public:
  /// Has no effect without a session (null).
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
