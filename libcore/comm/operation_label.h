// The name of an operation in messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

/// Also the kind in a message's tag: messages of different kinds never match.
enum class OperationKind : int { all_reduce, all_reduce_sums, all_gather, reduce_scatter, broadcast, send, receive };

/// Where training stands, for messages; negative: not said.
struct OperationProgress {
  std::int64_t iteration = -1;
  int micro_batch = -1;
  std::string text() const;  // ", iteration 3, micro-batch 1", or nothing
};

struct GroupIdentity {
  std::string name;
  std::vector<int> ranks;  // of the job
};

struct OperationLabel {
  OperationKind kind = OperationKind::all_reduce;
  const GroupIdentity* group = nullptr;
  std::int64_t number = 0;  // how many of the group were started before it; of the pair, for a send
  std::size_t bytes = 0;
  int peer = -1;  // of a broadcast (its root), a send or a receive: a rank of the job
  OperationProgress at;

  /// "all-reduce #12 of group 'data' (4,096 bytes, iteration 3, micro-batch 1)".
  std::string text() const;
};

}  // namespace mtl
