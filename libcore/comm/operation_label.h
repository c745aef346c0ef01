// Descriptions of communication operations, for error messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

/// Part of a message's tag: messages of different kinds never match.
enum class OperationKind : int { all_reduce, all_reduce_sums, all_gather, reduce_scatter, broadcast, send, receive };

/// The run's progress, for messages; negative: unknown.
struct OperationProgress {
  std::int64_t iteration = -1;
  int micro_batch = -1;
  std::string text() const;  // ", iteration 3, micro-batch 1", or empty
};

struct GroupIdentity {
  std::string name;
  std::vector<int> ranks;  // of the job
};

struct OperationLabel {
  OperationKind kind = OperationKind::all_reduce;
  const GroupIdentity* group = nullptr;
  std::int64_t number = 0;  // counts the group's collectives, or its messages to or from this peer, from 0
  std::size_t bytes = 0;
  int peer = -1;  // root of a broadcast, peer of a send or receive: a rank of the job
  OperationProgress at;

  /// "all-reduce #12 of group 'data' (4,096 bytes, iteration 3, micro-batch 1)".
  std::string text() const;
};

}  // namespace mtl
