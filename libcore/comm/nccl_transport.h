// Groups of GPUs over NCCL, and the supervision of their operations. The members of a group exchange its id over the
// job's control group, which uses MPI and host memory.
//
// The host does not wait for operations of a GPU. MPI's progress thread checks them: for errors that NCCL reports, for
// operations that exceed the deadline, and for failed ranks. In these cases it aborts all groups, so that streams end,
// and the next call of the rank's main thread throws. Results computed since are invalid (Communicator::is_intact).
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
  Event begin, end;  // of the work that it waits for on this rank; of itself
};

/// An NCCL communicator with its stream; its members' operations are matched in order.
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

  /// Collective over `control`, the job: each rank passes its own group, or only itself, and then gets a
  /// SelfCommunicator.
  std::shared_ptr<Communicator> group(Communicator& control, const std::vector<int>& ranks, const std::string& name);
  /// Collective, when all operations are done: closes all groups.
  void close();

  NcclLibrary& library() { return library_; }
  /// Call before an operation: throws the fault that the progress thread found. Returns the run's progress.
  OperationProgress check();
  /// Call when an operation is queued on its stream. Captured operations are not supervised: they run later, and more
  /// than once.
  void started(std::shared_ptr<NcclOperation> operation, bool captured);
  /// Opens a channel of `size` members, which close() closes. Collective over them.
  NcclChannel& open(const std::string& id, int rank, int size, const std::string& name);
  /// See Communicator.
  std::shared_ptr<void> enroll(NcclHandle group, const Tensor& memory);
  /// False after operations were aborted.
  bool is_intact() const { return intact_; }

  void check_faults(const OperationProgress& at) override;
  void abandon() noexcept override;

 private:
  void prune();  // in the rank's main thread

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
