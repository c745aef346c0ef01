// Describes communication operations in error messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_index.h"
#include "comm/channel.h"
#include "device/tensor.h"

namespace mtl {

/// Each message's tag contains the operation's kind, so messages of different kinds never match. A `graph` is a CUDA
/// graph that contains operations between GPUs; it has no messages.
enum class OperationKind : int {
  all_reduce,
  all_reduce_sums,
  all_gather,
  reduce_scatter,
  broadcast,
  send,
  receive,
  graph
};

/// By kind, except graphs.
inline constexpr const char* kOperationNames[] = {"all-reduce", "all-reduce", "all-gather", "reduce-scatter",
                                                  "broadcast",  "send",       "receive"};
inline const char* name_of(OperationKind kind) { return kOperationNames[enum_index(kind)]; }

/// An operation on the tensors of a group's member.
struct Transfer {
  OperationKind kind;
  Tensor out, in;                          // the same if the operation has one tensor
  int peer = -1;                           // of the group: a broadcast's root, or the other end of a message
  Channel channel = Channel::activations;  // of a message

  bool is_message() const { return kind == OperationKind::send || kind == OperationKind::receive; }
  /// Returns the tensor that is not only this rank's part.
  const Tensor& whole() const { return kind == OperationKind::reduce_scatter ? in : out; }
};

/// How far the run has come, for error messages. Negative means unknown.
struct OperationProgress {
  std::int64_t iteration = -1;
  const char* action = nullptr;  // what the pipeline does with the micro-batch, such as "backward"; null: nothing
  int micro_batch = 0;           // with an action
  int chunk = -1;                // of the stage, if it has several

  /// Returns text such as ", iteration 3, backward of micro-batch 1 in chunk 0"; omits what is unknown.
  std::string text() const;
};

struct GroupIdentity {
  std::string name;
  std::vector<int> ranks;  // ranks of the job
};

struct OperationLabel {
  OperationKind kind = OperationKind::all_reduce;
  const GroupIdentity* group = nullptr;
  // Index from 0, among the group's collectives, its messages to or from `peer` in `channel`, or its graphs' launches.
  std::int64_t number = 0;
  std::size_t bytes = 0;
  int peer = -1;  // a broadcast's root or a message's peer, as a rank of the job; otherwise -1
  OperationProgress at;
  Channel channel = Channel::activations;  // of a message

  /// Returns text such as "all-reduce #12 in group 'data' (4,096 bytes, iteration 3, forward of micro-batch 1)". For a
  /// message: "receive #4 of gradients from rank 1 in group 'pipeline' (...)". For a graph: "CUDA graph #12 with
  /// operations in group 'tensor' (a part of the step, iteration 3, forward of micro-batch 1)".
  std::string text() const;
};

/// Returns the label of an operation. Throws for a meta tensor.
OperationLabel make_label(const Transfer& transfer, const GroupIdentity& group, std::int64_t number,
                          const OperationProgress& at);

}  // namespace mtl
