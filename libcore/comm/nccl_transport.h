// Groups of GPUs over NCCL, and the watch over what they do. A group is found over the job's control group, which stays
// MPI over host memory.
//
// The host does not wait for operations of a GPU. The progress thread of MPI looks after them: NCCL's own reports of
// faults, operations that take longer than the deadline, ranks that failed. In these cases it aborts all groups, so
// that streams come to their end, and the next call of the rank's own thread throws. What the streams computed since is
// garbage (Communicator::is_intact).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/device_watch.h"
#include "comm/mpi_progress.h"
#include "comm/nccl_library.h"
#include "device/event.h"

namespace mtl {

/// An operation on its way on a GPU.
struct NcclOperation {
  explicit NcclOperation(const OperationLabel& what) : label(what), begin(Device::cuda), end(Device::cuda) {}
  OperationLabel label;
  Event begin, end;  // what it waits for on this rank, and its own end
};

/// A communicator of NCCL with its stream: its members match operations in order.
struct NcclChannel {
  NcclHandle handle = nullptr;
  std::string name;
  Stream stream{Device::cuda};
};

class NcclTransport final : public DeviceWatch {
 public:
  NcclTransport(MpiProgress& progress, NcclLibrary& library);
  ~NcclTransport() override;
  NcclTransport(const NcclTransport&) = delete;

  /// Collective over `control`, the job: each rank names its own group, or itself alone, in which case it gets none.
  std::shared_ptr<Communicator> group(Communicator& control, const std::vector<int>& ranks, const std::string& name);
  /// Collective, when all operations are done: closes all groups.
  void close();

  NcclLibrary& library() { return library_; }
  /// Before an operation: throws what the watch found. Returns where training is.
  OperationProgress check();
  /// An operation was given to its stream. A captured one is not looked after: it runs later, and more than once.
  void started(std::shared_ptr<NcclOperation> operation, bool captured);
  /// Opens a channel of `size` members, for close(). Collective among them.
  NcclChannel& open(const std::string& id, int rank, int size, const std::string& name);
  /// See Communicator.
  std::shared_ptr<void> enroll(NcclHandle group, const Tensor& memory);
  /// False after operations were ended without results.
  bool is_intact() const { return intact_; }

  void look(const OperationProgress& at) override;
  void abandon() noexcept override;

 private:
  void prune();  // by the rank's own thread

  MpiProgress& progress_;
  NcclLibrary& library_;
  std::deque<NcclChannel> channels_;
  std::vector<std::shared_ptr<Communicator>> groups_;     // operations on their way point into them
  std::deque<std::shared_ptr<NcclOperation>> under_way_;  // in the order of their start
  bool captured_ = false, abandoned_ = false, intact_ = true;
  std::string fault_;
  double last_look_ = 0;
};

}  // namespace mtl
