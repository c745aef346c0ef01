// How ranks talk. Every axis of parallelism always has a Communicator; a group of one is a SelfCommunicator, a null
// object, so that no layer asks how many ranks there are. All communication is start -> Work: the caller may compute
// until it waits.
//
// Every member of a group starts the same operations on it, with the same sizes, in the same order. Sums are added in
// the order of ranks, so all members get the same bits, and the same bits in every run. Between GPUs the order of sums
// is NCCL's (comm/nccl_communicator.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/profile.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Ranks cannot reach each other, or do different things: nothing can be agreed any more, the job must end.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& what) : Error(Exit::failure, what) {}
};

/// Another rank failed while this one waited for it. What failed is agreed over ProcessGroups::control.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what) : Error(Exit::failure, what) {}
};

/// A communication that was started. Tensors handed to it must stay untouched by the host until join() returned, and by
/// operators unless they are given to a stream after wait(); only an exception may drop it before.
class Work {
 public:
  /// What a transport polls. done() never blocks and moves every pending operation of the transport on; join() returns
  /// when this one is done, and throws when that takes longer than the transport's deadline. order() lets what the
  /// stream is given next run after it; a transport of host memory joins.
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
  /// Operators that the stream is given from now on see the result. The host may continue before it is there.
  void wait(Stream& stream) const {
    if (operation_ == nullptr) return;
    ProfileRange range(stream, ProfileKind::communication, "wait");
    operation_->order(stream);
  }
  /// The host sees the result.
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
  /// In place: every rank gets the sum of all ranks' data: f32, f64, bf16 or f16, of which the last two are summed in
  /// fp32 and rounded once.
  virtual Work all_reduce(Stream& stream, Tensor data) = 0;
  /// out holds size() parts like in, in the order of ranks. in may be this rank's part of out.
  virtual Work all_gather(Stream& stream, Tensor out, Tensor in) = 0;
  /// in holds size() parts like out; out receives the sum of all ranks' part number rank(). out may be that part of
  /// in; the other parts of in stay as they are. Dtypes as in all_reduce().
  virtual Work reduce_scatter(Stream& stream, Tensor out, Tensor in) = 0;
  virtual Work broadcast(Stream& stream, Tensor data, int root) = 0;
  virtual Work send(Stream& stream, Tensor data, int peer) = 0;
  virtual Work receive(Stream& stream, Tensor data, int peer) = 0;
  /// Memory that operations will use again and again: a transport may prepare it, until the result is destroyed, which
  /// must be before the memory is freed.
  virtual std::shared_ptr<void> enroll(const Tensor&) { return {}; }
  /// False after operations were ended without results while the host continued: what operators computed since is
  /// garbage, and nothing of it may be saved.
  virtual bool is_intact() const { return true; }
  /// To be called before computing while works are on their way: transports that move only inside calls see to it that
  /// they move meanwhile.
  virtual void progress() {}
  /// For a rank that failed: waits of the other ranks throw Interrupted, now and from now on, in all groups but the
  /// control group. Operations that were not complete are abandoned on all ranks; their memory must exist as long as
  /// the control group is used.
  virtual void interrupt_others() {}
};

/// A group of one: sums leave the data as it is, gathers and scatters copy, there is no other rank to send to.
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

/// One member of a group that exists on paper alone: checks shapes and counts what it would move, for plans.
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

  /// Bytes that this rank has sent, by the best algorithm's count: an all-reduce of n bytes over p ranks sends
  /// 2 n (p - 1) / p, a gather or scatter of n bytes in all half of that, a send n.
  double sent_bytes() const { return sent_bytes_; }

 private:
  int rank_, size_;
  double sent_bytes_ = 0;
};

}  // namespace mtl
