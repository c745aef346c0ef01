// Communication between ranks. Every axis of parallelism always has a Communicator; a group of one rank has a
// SelfCommunicator, a null object, so that no layer needs to check the number of ranks. Every operation returns Work as
// soon as it is started; the caller may compute before it waits for the Work.
//
// All members of a group start the same operations on it, with the same sizes, in the same order. Sums are added in
// rank order, so all members get the same bits, and the same bits in every run. Between GPUs, NCCL decides the order of
// sums (comm/nccl_communicator.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/profile.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Ranks cannot reach each other, or their operations differ. They can no longer agree on anything: the job must end.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& what) : Error(Exit::failure, what) {}
};

/// Another rank failed while this one waited for it. The ranks agree on the error over ProcessGroups::world().
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what) : Error(Exit::failure, what) {}
};

/// An operation that was started. The host must not touch its tensors until join() has returned; operators may use them
/// only if they are launched on a stream after wait(). Only stack unwinding may destroy the Work of an unfinished
/// operation.
class Work {
 public:
  /// The transport's side. done() never blocks, and progresses all pending operations of the transport; join() returns
  /// when this operation is done, and throws after the transport's deadline. order() makes later work of the stream run
  /// after this operation; a transport of host memory joins.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual bool done() = 0;
    virtual void join() = 0;
    virtual void order(Stream&) { join(); }
  };

  Work() = default;  // already complete
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  bool done() const { return operation_ == nullptr || operation_->done(); }
  /// Makes operators launched on the stream from now on see the result. May return before the result exists.
  void wait(Stream& stream) const {
    if (operation_ == nullptr) return;
    ProfileRange range(stream, ProfileKind::communication, "wait");
    operation_->order(stream);
  }
  /// Returns when the host can read the result.
  void join() const {
    if (operation_ != nullptr) operation_->join();
  }

 private:
  std::shared_ptr<Operation> operation_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Replaces data by the sum of all ranks' data. Dtypes f32, f64, bf16 and f16; the last two are summed in fp32 and
  /// rounded once.
  virtual Work all_reduce(Stream& stream, Tensor data) = 0;
  /// Gathers all ranks' `in` into `out`, size() parts in rank order. `in` may be this rank's part of `out`.
  virtual Work all_gather(Stream& stream, Tensor out, Tensor in) = 0;
  /// `in` consists of size() parts of `out`'s size. Writes the sum of all ranks' part number rank() to `out`, which may
  /// be that part of `in`; does not change the other parts. Dtypes as in all_reduce().
  virtual Work reduce_scatter(Stream& stream, Tensor out, Tensor in) = 0;
  virtual Work broadcast(Stream& stream, Tensor data, int root) = 0;
  virtual Work send(Stream& stream, Tensor data, int peer) = 0;
  virtual Work receive(Stream& stream, Tensor data, int peer) = 0;
  /// Registers memory that operations use repeatedly, for transports that benefit from it. Destroy the result before
  /// freeing the memory.
  virtual std::shared_ptr<void> register_memory(const Tensor&) { return {}; }
  /// False after operations were aborted while the host continued: everything computed since is invalid and must not be
  /// saved.
  virtual bool is_intact() const { return true; }
  /// Call before computing while operations are in progress: a transport that progresses only inside calls lets a
  /// thread progress them meanwhile.
  virtual void progress() {}
  /// Call on a rank that failed: from now on, waits of the other ranks throw Interrupted in all groups but the control
  /// group. All ranks abandon incomplete operations; their memory must exist as long as the control group is used.
  virtual void interrupt_others() {}
};

/// A group of one: sums do not change the data, gathers and scatters copy, send and receive throw.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Work all_reduce(Stream& stream, Tensor data) override;
  Work all_gather(Stream& stream, Tensor out, Tensor in) override;
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in) override;
  Work broadcast(Stream& stream, Tensor data, int root) override;
  Work send(Stream& stream, Tensor data, int peer) override;
  Work receive(Stream& stream, Tensor data, int peer) override;
};

/// A member of a group without communication, for plans: checks shapes and counts the bytes it would send.
class MetaCommunicator final : public Communicator {
 public:
  MetaCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Work all_reduce(Stream& stream, Tensor data) override;
  Work all_gather(Stream& stream, Tensor out, Tensor in) override;
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in) override;
  Work broadcast(Stream& stream, Tensor data, int root) override;
  Work send(Stream& stream, Tensor data, int peer) override;
  Work receive(Stream& stream, Tensor data, int peer) override;

  /// Bytes that this rank would have sent with the best algorithms: 2 n (p - 1) / p for an all-reduce of n bytes over p
  /// ranks, half of that for a gather or scatter of n bytes in total, n for a send, n (p - 1) for a broadcast's root.
  double sent_bytes() const { return sent_bytes_; }

 private:
  int rank_, size_;
  double sent_bytes_ = 0;
};

}  // namespace mtl
