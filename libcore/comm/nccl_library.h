// The NCCL functions that communicators call. There are three implementations:
// - nccl_library_cuda.cpp opens the NCCL library when the first GPU group is created.
// - no_nccl_library.cpp is for builds without NCCL.
// - tests/mirror/nccl.cpp emulates NCCL.
//
// Operations are enqueued on a CUDA stream, and the functions return before the operations are done. NCCL has no tags.
// It matches a communicator's operations in starting order, so each communicator has a separate stream.
#pragma once

#include <string>
#include <vector>

#include "comm/operation_label.h"
#include "device/cuda_stream.h"

struct ncclComm;  // NCCL's ncclComm_t is a pointer to ncclComm

namespace mtl {

using NcclHandle = ncclComm*;

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// Creates an id for a new group. One member calls this, and all members pass the id to open().
  virtual std::string unique_id() = 0;
  /// Creates a group. Collective: blocks until all members have called open(). `name` must exist until the group is
  /// closed, because NCCL keeps the pointer since 2.27. Operations use at most `blocks` blocks of the GPU, or as many
  /// as NCCL chooses if it is 0.
  virtual NcclHandle open(const std::string& id, int rank, int size, const std::string& name, int blocks) = 0;
  /// Closes a group. Collective. All operations in the group must be done, and no graph may contain any.
  virtual void close(NcclHandle group) noexcept = 0;
  /// Aborts operations in progress so that their streams can finish. Then waits until no graph contains operations of
  /// the groups, and closes them. Thread-safe.
  virtual void abort(const std::vector<NcclHandle>& groups) noexcept = 0;
  /// Returns an error message if an operation in the group has failed, otherwise "". Thread-safe.
  virtual std::string fault(NcclHandle group) = 0;

  /// Enqueues an operation. The group of a message has two members, the first of which sends.
  virtual void start(NcclHandle group, cuda::StreamHandle stream, const Transfer& transfer) = 0;

  /// Registers memory that operations use repeatedly. Returns null if the library cannot register it. This is not an
  /// error.
  virtual void* register_memory(NcclHandle group, Tensor memory) = 0;
  /// Must be called before the memory is freed and before the group is closed.
  virtual void deregister_memory(NcclHandle group, void* registered) noexcept = 0;
};

/// Throws Error if the library cannot be opened.
NcclLibrary& nccl_library();

}  // namespace mtl
