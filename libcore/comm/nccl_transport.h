// Creates GPU groups over NCCL and supervises their operations. Members receive the group's NCCL id over the job's
// control group, which uses MPI and host memory.
//
// The host does not wait for GPU operations. Instead, MpiProgress's progress thread checks for errors reported by NCCL,
// operations that exceed the deadline, and failed ranks. If it finds any of these, it aborts all groups so that the
// streams can finish. The next call from the rank's main thread then throws. Results computed since the abort are
// invalid (Communicator::is_intact()). The abort runs on a thread of its own, because it waits for the main thread to
// free its graphs.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_progress.h"
#include "comm/nccl_library.h"
#include "device/event.h"

namespace mtl {

/// An operation, or a graph that contains operations, that has started on a GPU.
struct NcclOperation {
  explicit NcclOperation(const OperationLabel& operation_label)
      : label(operation_label), begin(Device::cuda), end(Device::cuda) {}
  OperationLabel label;
  // `begin` is recorded on the caller's stream before the operation, `end` on the channel's stream after it. A graph's
  // events are recorded on the stream that launches it.
  Event begin, end;
};

/// An NCCL communicator with its stream. NCCL matches members' operations in starting order.
struct NcclChannel {
  NcclHandle handle = nullptr;
  std::string name;
  Stream stream{Device::cuda};
};

class NcclTransport {
 public:
  NcclTransport(MpiProgress& progress, NcclLibrary& library);
  ~NcclTransport();
  NcclTransport(const NcclTransport&) = delete;

  /// Creates a group. Collective over `control`, which contains all ranks of the job. Each rank passes the members of
  /// its own group. A rank that passes only itself gets a SelfCommunicator. Members can send messages only on `paths`.
  std::shared_ptr<Communicator> group(Communicator& control, const std::vector<int>& ranks, const std::string& name,
                                      MessagePaths paths);
  /// Waits for all operations and closes all groups. Collective. No graph may contain operations. After an abort, does
  /// nothing.
  void close();

  NcclLibrary& library() { return library_; }
  /// Must be called before each operation. Returns the run's progress. Throws CommunicationError if the progress thread
  /// has found a fault, and Interrupted if a rank has failed.
  OperationProgress check();
  /// Must be called when an operation has been enqueued on its stream. From then on, supervises it.
  void started(std::shared_ptr<NcclOperation> operation);
  /// Opens a channel with `size` members. Collective over the members. close() closes the channel. `blocks` is as in
  /// NcclLibrary::open().
  NcclChannel& open(const std::string& id, int rank, int size, const std::string& name, int blocks);
  /// See Communicator::register_memory().
  std::shared_ptr<void> register_memory(NcclHandle group, const Tensor& memory);
  /// Returns false if operations have been aborted. See Communicator::is_intact().
  bool is_intact() const { return intact_; }

  // For MpiProgress, which polls operations, because the host does not wait for them. Callers must hold its lock.
  /// Checks operations in progress for faults. If it finds a fault, aborts all of them and throws CommunicationError.
  void check_faults(const OperationProgress& at);
  /// Must be called after a rank has failed. Aborts operations in progress so that the host can continue. Does not wait
  /// for them.
  void abandon() noexcept;

 private:
  void prune();  // drops completed operations; main thread only

  MpiProgress& progress_;
  NcclLibrary& library_;
  const int device_;  // the rank's GPU
  std::list<NcclChannel> channels_;
  std::vector<std::shared_ptr<Communicator>> groups_;       // operations in progress point into these
  std::deque<std::shared_ptr<NcclOperation>> in_progress_;  // in starting order
  bool abandoned_ = false, intact_ = true, gpu_failed_ = false;
  std::string fault_;
  double checked_at_ = 0;
  std::thread aborting_;  // calls the library's abort()
};

}  // namespace mtl
