// How ranks talk. Every axis of parallelism always has a Communicator; a group of one is a SelfCommunicator, a null
// object, so that no layer asks how many ranks there are. All communication is start -> Work: the caller may compute
// until it waits.
#pragma once

#include <memory>

#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

enum class Reduce { sum, max };

/// A communication that was started. Tensors handed to it must stay untouched until wait() returned.
class Work {
 public:
  /// What a transport polls. done() never blocks.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual bool done() = 0;
  };

  Work() = default;  // already complete
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  bool done() const { return operation_ == nullptr || operation_->done(); }
  void wait() const {
    while (!done()) {
    }
  }

 private:
  std::shared_ptr<Operation> operation_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// In place.
  virtual Work all_reduce(Stream& stream, Tensor data, Reduce how) = 0;
  /// out holds size() parts like in, in the order of ranks. in may be this rank's part of out.
  virtual Work all_gather(Stream& stream, Tensor out, Tensor in) = 0;
  /// in holds size() parts like out; out receives the sum of everyone's part number rank().
  virtual Work reduce_scatter(Stream& stream, Tensor out, Tensor in) = 0;
  virtual Work broadcast(Stream& stream, Tensor data, int root) = 0;
  virtual Work send(Stream& stream, Tensor data, int peer) = 0;
  virtual Work receive(Stream& stream, Tensor data, int peer) = 0;
};

/// A group of one: reductions leave the data as it is, gathers and scatters copy, there is nobody to send to.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Work all_reduce(Stream& stream, Tensor data, Reduce how) override;
  Work all_gather(Stream& stream, Tensor out, Tensor in) override;
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in) override;
  Work broadcast(Stream& stream, Tensor data, int root) override;
  Work send(Stream& stream, Tensor data, int peer) override;
  Work receive(Stream& stream, Tensor data, int peer) override;
};

/// The groups that this rank belongs to.
struct ProcessGroups {
  std::shared_ptr<Communicator> tensor;     // shares layers
  std::shared_ptr<Communicator> pipeline;   // holds the layers before and after
  std::shared_ptr<Communicator> data;       // sees other samples
  std::shared_ptr<Communicator> context;    // sees other positions of the same samples
  std::shared_ptr<Communicator> embedding;  // holds a copy of the tied table
};

/// One process: every group has one member.
ProcessGroups single_process_groups();

}  // namespace mtl
