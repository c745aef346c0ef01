// Groups of GPUs over NCCL, and the supervision of their operations. The members of a group receive its NCCL id over
// the job's control group, which uses MPI and host memory.
//
// The host does not wait for operations of a GPU. MPI's progress thread checks them: for errors that NCCL reports, for
// operations that exceed the deadline, and for failed ranks. In these cases it aborts all groups, so that streams
// finish, and the next call of the rank's main thread throws. Results computed since the abort are invalid
// (Communicator::is_intact).
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

/// An operation in progress on a GPU.
struct NcclOperation {
  explicit NcclOperation(const OperationLabel& operation_label)
      : label(operation_label), begin(Device::cuda), end(Device::cuda) {}
  OperationLabel label;
  Event begin, end;  // begin: on the caller's stream, before the operation; end: on the channel's, after it
};

/// An NCCL communicator with its stream; NCCL matches the members' operations in order.
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

  /// Collective over `control`, all ranks of the job. Each rank passes its own group; a rank that passes only itself
  /// gets a SelfCommunicator.
  std::shared_ptr<Communicator> group(Communicator& control, const std::vector<int>& ranks, const std::string& name);
  /// Closes all groups. Collective; call when all operations are done.
  void close();

  NcclLibrary& library() { return library_; }
  /// Call before an operation. Throws CommunicationError with the fault that the progress thread found, or Interrupted
  /// if another rank failed. Returns the run's progress.
  OperationProgress check();
  /// Call when an operation has been enqueued on its stream. Captured operations are not supervised: they run later,
  /// and more than once.
  void started(std::shared_ptr<NcclOperation> operation, bool captured);
  /// Opens a channel of `size` members, which close() closes. Collective over them.
  NcclChannel& open(const std::string& id, int rank, int size, const std::string& name);
  /// See Communicator.
  std::shared_ptr<void> register_memory(NcclHandle group, const Tensor& memory);
  /// False after operations were aborted.
  bool is_intact() const { return intact_; }

  void check_faults(const OperationProgress& at) override;
  void abandon() noexcept override;

 private:
  void prune();  // drops completed operations; only in the rank's main thread

  MpiProgress& progress_;
  NcclLibrary& library_;
  std::deque<NcclChannel> channels_;
  std::vector<std::shared_ptr<Communicator>> groups_;       // operations in progress point into them
  std::deque<std::shared_ptr<NcclOperation>> in_progress_;  // in the order of their start
  bool captured_ = false, abandoned_ = false, intact_ = true;
  std::string fault_;
  double checked_at_ = 0;
};

}  // namespace mtl
