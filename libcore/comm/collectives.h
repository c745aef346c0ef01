// The algorithms of the collectives over host memory. Each is a Task, which progresses when polled and never blocks.
//
// Every rank exchanges messages with every other rank directly. In a reduction of n bytes over p ranks, rank r receives
// part r from all other ranks, segment by segment through a staging buffer, and adds the parts in rank order; an
// all-reduce then sends the sums to all ranks. In an all-reduce each rank sends 2 n (p-1)/p bytes, as in a ring, but in
// two steps instead of 2 (p-1), and every element is summed once, in one order. In an all-reduce of up to
// kSmallReduction bytes, every rank sends its whole input to every other rank instead, and adds all inputs: one step,
// and the same sums.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi_wire.h"

namespace mtl {

/// The group of a task. `rank` and all peers and roots are ranks within the group.
struct GroupLink {
  MpiWire* wire = nullptr;
  int handle = 0;
  int rank = 0, size = 1;
  std::byte* staging = nullptr;  // staging_bytes(size): comm/staging.h
};

/// An operation in progress.
class Task {
 public:
  explicit Task(const OperationLabel& label) : label_(label) {}
  virtual ~Task() = default;
  const OperationLabel& label() const { return label_; }
  bool finished() const { return finished_; }
  /// Progresses without blocking; finished() is true after the last step.
  void advance() { finished_ = finished_ || progress(); }

 protected:
  /// Progresses; returns true after the last step.
  virtual bool progress() = 0;

 private:
  OperationLabel label_;
  bool finished_ = false;
};

std::shared_ptr<Task> all_reduce_task(const GroupLink& link, const OperationLabel& label, Tensor data);
std::shared_ptr<Task> all_gather_task(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in);
std::shared_ptr<Task> reduce_scatter_task(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in);
std::shared_ptr<Task> broadcast_task(const GroupLink& link, const OperationLabel& label, Tensor data, int root);
/// Sends or receives one message of any size, as label.kind says.
std::shared_ptr<Task> message_task(const GroupLink& link, const OperationLabel& label, Tensor data, int peer);

}  // namespace mtl
