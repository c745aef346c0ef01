// The algorithms of the collectives, each a task that is moved on by polling and never waits.
//
// Every rank exchanges with every other directly. A reduction of n bytes over p ranks: rank r receives part r of all
// others, segment by segment through a staging buffer, and adds them in the order of ranks; an all-reduce then sends
// the sums to everyone. Each rank sends 2 n (p-1)/p bytes, as with a ring, in two steps instead of 2 (p-1), and every
// element is summed once, in one order. Up to kSmallReduction bytes everyone sends all to all instead and adds for
// itself: one step, and the same sums.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi_wire.h"

namespace mtl {

/// A group as its tasks see it. Ranks are the group's.
struct GroupLink {
  MpiWire* wire = nullptr;
  int handle = 0;
  int rank = 0, size = 1;
  std::byte* staging = nullptr;  // staging_bytes(size): comm/staging.h
};

/// An operation on its way.
class Task {
 public:
  explicit Task(const OperationLabel& label) : label_(label) {}
  virtual ~Task() = default;
  const OperationLabel& label() const { return label_; }
  bool finished() const { return finished_; }
  /// Does what can be done now; finished() tells whether that was the rest.
  void advance() { finished_ = finished_ || move_on(); }

 protected:
  virtual bool move_on() = 0;

 private:
  OperationLabel label_;
  bool finished_ = false;
};

std::shared_ptr<Task> all_reduce_task(const GroupLink& link, const OperationLabel& label, Tensor data);
std::shared_ptr<Task> all_gather_task(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in);
std::shared_ptr<Task> reduce_scatter_task(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in);
std::shared_ptr<Task> broadcast_task(const GroupLink& link, const OperationLabel& label, Tensor data, int root);
/// One message of any size; label.kind says in which direction.
std::shared_ptr<Task> message_task(const GroupLink& link, const OperationLabel& label, Tensor data, int peer);

}  // namespace mtl
