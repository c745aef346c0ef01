// The functions of NCCL that communicators call. nccl_library_cuda.cpp opens the library when the first group of GPUs
// is made; no_nccl_library.cpp is a build without it; tests/mirror/nccl.cpp plays it.
//
// Operations are commands of a CUDA stream: they return before they are done. NCCL has no tags: what the members of a
// communicator start is matched in the order in which they start it, so each communicator has a stream of its own.
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
  /// "2.28.9".
  virtual std::string version() = 0;
  /// Made by one member of a group, and passed to open() by all: how they find each other.
  virtual std::string unique_id() = 0;
  /// Collective: returns when all members have come.
  virtual NcclHandle open(const std::string& id, int rank, int size, const std::string& name) = 0;
  /// Collective, when all operations are done.
  virtual void close(NcclHandle group) noexcept = 0;
  /// Ends what is under way, without results: the host waits no longer for streams that have such commands. Then closes
  /// the groups. For any thread.
  virtual void abort(const std::vector<NcclHandle>& groups) noexcept = 0;
  /// The fault of operations that were started; empty without one. For any thread.
  virtual std::string fault(NcclHandle group) = 0;

  virtual void all_reduce(NcclHandle group, cuda::StreamHandle stream, Tensor data) = 0;
  virtual void all_gather(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) = 0;
  virtual void reduce_scatter(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) = 0;
  virtual void broadcast(NcclHandle group, cuda::StreamHandle stream, Tensor data, int root) = 0;
  virtual void send(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) = 0;
  virtual void receive(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) = 0;

  /// Memory that operations use again and again; null where the library cannot register it, which is not an error.
  virtual void* enroll(NcclHandle group, Tensor memory) = 0;
  /// Before its memory is freed, or the group closed.
  virtual void dismiss(NcclHandle group, void* enrolled) noexcept = 0;
};

/// Throws Error when the library cannot be opened.
NcclLibrary& nccl_library();

}  // namespace mtl
