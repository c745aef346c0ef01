// Collective algorithms for host memory. Each collective is a Task, which makes progress when polled and never blocks.
//
// Every rank exchanges messages directly with every other rank. To reduce n bytes over p ranks, rank r receives part r
// from all other ranks, segment by segment through a staging buffer, and adds the parts in rank order. In an
// all-reduce, rank r then sends its sums to all other ranks. An all-reduce makes each rank send 2 n (p-1)/p bytes. A
// ring algorithm sends just as much, but takes 2 (p-1) steps instead of two. Each element is summed on one rank only,
// always in rank order.
//
// All-reduces up to kSmallReduction bytes take a single step: every rank sends its entire input to all other ranks and
// adds all inputs in rank order. The sums are the same.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/mpi_wire.h"

namespace mtl {

/// A task's group. `rank`, peers and roots are all group ranks.
struct GroupLink {
  MpiWire* wire = nullptr;
  int handle = 0;
  int rank = 0, size = 1;
  std::byte* staging = nullptr;  // staging_bytes(size) bytes (comm/staging.h)
};

/// A collective or message in progress.
class Task {
 public:
  explicit Task(const OperationLabel& label) : label_(label) {}
  virtual ~Task() = default;
  const OperationLabel& label() const { return label_; }
  bool finished() const { return finished_; }
  /// Makes progress without blocking. After the last step, finished() returns true.
  void advance() { finished_ = finished_ || progress(); }

 protected:
  /// Makes progress without blocking. Returns true after the last step.
  virtual bool progress() = 0;

 private:
  OperationLabel label_;
  bool finished_ = false;
};

/// Returns the task that performs an operation, with its label. A message can have any size.
std::shared_ptr<Task> make_task(const GroupLink& link, const OperationLabel& label, const Transfer& transfer);

}  // namespace mtl
