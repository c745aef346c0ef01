// Communication between ranks. Every parallelism axis has a Communicator. A one-rank group uses a SelfCommunicator, a
// null object, so layers need not check how many ranks there are. Operations return a Work object as soon as they have
// started. The caller can compute before waiting for it.
//
// All group members must start the same operations, with the same sizes and in the same order. We add inputs in rank
// order, so the results are bit-identical on all members and in all runs. Between GPUs, NCCL chooses the order instead
// (comm/nccl_communicator.h). Only the main thread may use Communicators and their Work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "comm/channel.h"
#include "comm/operation_label.h"
#include "device/profile.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Thrown if ranks cannot reach each other or perform different operations. They can no longer agree on anything after
/// that, so the job must end.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& what) : Error(Exit::failure, what) {}
};

/// Thrown if another rank fails while this rank waits. The ranks can still use ProcessGroups::world() to agree on the
/// error.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what) : Error(Exit::failure, what) {}
};

/// A handle to an operation that has started. The host must not access the operation's tensors before join() returns.
/// Operators may use them only if they are launched on a stream after wait(stream). A Work must not be destroyed before
/// its operation has finished, except during stack unwinding.
class Work {
 public:
  /// A transport's implementation of an operation.
  /// - done() never blocks. It lets all pending operations in the transport make progress.
  /// - join() blocks until this operation is done. It throws after the transport's deadline.
  /// - order() makes later work on the stream run after this operation. The default calls join(), which is right for
  ///   transports over host memory.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual bool done() = 0;
    virtual void join() = 0;
    virtual void order(Stream&) { join(); }
  };

  Work() = default;  // an operation that has already completed
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  /// An operation on meta. `started` is the entry of its start in the profile of the streams that will wait for it.
  explicit Work(int started) : started_(started) {}
  bool done() const { return operation_ == nullptr || operation_->done(); }
  /// Operators launched on `stream` after this call will see the result. May return before the result exists.
  void wait(Stream& stream) const {
    if (operation_ == nullptr && started_ < 0) return;
    ProfileRange range(stream, {.kind = ProfileKind::communication, .name = "wait", .started = started_});
    if (operation_ != nullptr) operation_->order(stream);
  }
  /// Blocks until the host can read the result.
  void join() const {
    if (operation_ != nullptr) operation_->join();
  }

 private:
  std::shared_ptr<Operation> operation_;
  int started_ = -1;
};

/// What a rank sends to a group. Time on a link is its latency for each operation, plus the bytes at its bandwidth.
struct Traffic {
  double bytes = 0;
  std::int64_t operations = 0;  // collectives and sends; a receive is counted by its sender
  bool operator==(const Traffic&) const = default;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the group's name in messages.
  virtual std::string name() const { return ""; }
  /// Sums `data` over all ranks, in place. The dtype must be f32, f64, bf16 or f16. bf16 and f16 are summed in fp32 and
  /// rounded once.
  Work all_reduce(Stream& stream, Tensor data);
  /// Gathers `in` from all ranks into `out`, which consists of size() parts in rank order. `in` can be this rank's own
  /// part of `out`.
  Work all_gather(Stream& stream, Tensor out, Tensor in);
  /// Splits `in` into size() parts, each as large as `out`. Sums part rank() over all ranks into `out`, which can be
  /// part rank() of `in`. Does not change the other parts. Accepts the same dtypes as all_reduce().
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in);
  Work broadcast(Stream& stream, Tensor data, int root);
  Work send(Stream& stream, Tensor data, int peer, Channel channel);
  Work receive(Stream& stream, Tensor data, int peer, Channel channel);
  /// Returns what this rank has sent since the last call, if the transport counts it. Those of a run do not.
  virtual Traffic take_traffic() { return {}; }
  /// Registers memory that operations use repeatedly, if the transport benefits from that. The returned object must be
  /// destroyed before the memory is freed.
  virtual std::shared_ptr<void> register_memory(const Tensor&) { return {}; }
  /// Returns true if operations have been captured in a graph (device/graph.h) since the last call.
  virtual bool take_captured() { return false; }
  /// Calls launch(), which launches a graph on `stream`. Must be used for graphs that contain operations: the transport
  /// supervises the launch like an operation of this group.
  virtual void supervise(Stream&, const std::function<void()>& launch) { launch(); }
  /// Returns false if operations were aborted while the host continued. Anything computed since then is invalid and
  /// must not be saved.
  virtual bool is_intact() const { return true; }
  /// Should be called before a computation while operations are in progress. Some transports make progress only inside
  /// their calls. A thread will then make these calls during the computation.
  virtual void progress() {}
  /// Must be called on a rank that failed. From then on, waits on all other ranks throw Interrupted, except in the
  /// control group. All ranks abandon their incomplete operations. The memory of these operations must exist as long as
  /// the control group is used.
  virtual void interrupt_others() {}

 private:
  /// Starts an operation, whose shapes, dtypes and peer are checked.
  virtual Work start(Stream& stream, const Transfer& transfer) = 0;
  Work start_message(Stream& stream, const Transfer& transfer);
};

/// A one-rank group. all_reduce() and broadcast() do not change the data. all_gather() and reduce_scatter() copy `in`
/// to `out`. There is no peer for send() and receive(), which throw Error(failure).
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "self"; }

 private:
  Work start(Stream& stream, const Transfer& transfer) override;
};

/// For planning: checks shapes and counts what a rank would send, but does not communicate. The profile of a stream
/// gets an entry for the start of every operation, with the bytes sent and the group's name, and one for every wait.
class MetaCommunicator : public Communicator {
 public:
  MetaCommunicator(int rank, int size, std::string name = "") : rank_(rank), size_(size), name_(std::move(name)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return name_; }

  /// Returns what this rank would have sent since the last call, with bandwidth-optimal algorithms. For p ranks and n
  /// bytes, the bytes sent are:
  ///   all-reduce                  2 n (p - 1) / p
  ///   all-gather, reduce-scatter  (p - 1) n / p, where n is the total over all ranks
  ///   send                        n
  ///   broadcast                   n (p - 1) on the root, otherwise 0
  Traffic take_traffic() override { return std::exchange(traffic_, {}); }

 protected:
  Work start(Stream& stream, const Transfer& transfer) override;

 private:
  double bytes_sent(const Transfer& transfer) const;

  int rank_, size_;
  std::string name_;
  Traffic traffic_;
};

}  // namespace mtl
