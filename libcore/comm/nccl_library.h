// The functions of NCCL that communicators call. nccl_library_cuda.cpp opens the library when the first group of GPUs
// is created; no_nccl_library.cpp is for a build without NCCL; tests/mirror/nccl.cpp emulates NCCL.
//
// Operations are commands of a CUDA stream: they return before they are done. NCCL has no tags: it matches the
// operations of a communicator in the order in which they are started, so each communicator has a stream of its own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/cuda_stream.h"
#include "device/tensor.h"

struct ncclComm;  // ncclComm_t points to it

namespace mtl {

using NcclHandle = ncclComm*;

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// Creates a group's id. One member calls this; all members pass the id to open().
  virtual std::string unique_id() = 0;
  /// Collective: returns when all members have called it.
  virtual NcclHandle open(const std::string& id, int rank, int size, const std::string& name) = 0;
  /// Collective; call when all operations are done.
  virtual void close(NcclHandle group) noexcept = 0;
  /// Aborts the operations in progress, so that the streams that run them finish, and closes the groups. Thread-safe.
  virtual void abort(const std::vector<NcclHandle>& groups) noexcept = 0;
  /// Returns the error of operations that were started; empty if none failed. Thread-safe.
  virtual std::string fault(NcclHandle group) = 0;

  virtual void all_reduce(NcclHandle group, cuda::StreamHandle stream, Tensor data) = 0;
  virtual void all_gather(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) = 0;
  virtual void reduce_scatter(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) = 0;
  virtual void broadcast(NcclHandle group, cuda::StreamHandle stream, Tensor data, int root) = 0;
  virtual void send(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) = 0;
  virtual void receive(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) = 0;

  /// Registers memory that operations use repeatedly. Returns null if the library cannot, which is not an error.
  virtual void* register_memory(NcclHandle group, Tensor memory) = 0;
  /// Deregisters memory; call before the memory is freed or the group closed.
  virtual void deregister_memory(NcclHandle group, void* registered) noexcept = 0;
};

/// Throws Error if the library cannot be opened.
NcclLibrary& nccl_library();

}  // namespace mtl
