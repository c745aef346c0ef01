// A lane is one end of a long message, sent in segments of which a limited number are in flight: MPI counts bytes in an
// int, and the arrival of segments shows that a slow exchange makes progress.
#pragma once

#include <deque>

#include "comm/collectives.h"

namespace mtl {

class Lane {
 public:
  enum class Direction { send, receive };
  static constexpr std::size_t kSegment = 1 << 20;
  static constexpr int kInFlight = 32;

  struct End {
    Direction direction;
    int peer;  // a rank of the group
    int tag;
    std::size_t segment = kSegment;  // bytes; the same on both sides
  };

  Lane(const GroupLink& link, const OperationLabel* label, const End& end, std::byte* data, std::size_t bytes)
      : link_(link), label_(label), end_(end), data_(data), remaining_(bytes) {}
  Lane(const Lane&) = delete;  // messages in flight point to pending_

  /// Starts as many segments as may be in flight. Returns true when all are sent or received.
  bool progress();

 private:
  const GroupLink& link_;
  const OperationLabel* label_;
  End end_;
  std::byte* data_;
  std::size_t remaining_;
  int pending_ = 0;
};

/// The lanes of one operation.
class Lanes {
 public:
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    lanes_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  /// Progresses all lanes. Returns true when all are complete.
  bool progress();

 private:
  std::deque<Lane> lanes_;  // a deque does not move its elements
  std::size_t first_ = 0;   // lanes before this one are complete
};

/// Returns a message tag: different for different kinds, and for operations of one kind less than 4096 apart.
int tag_of(OperationKind kind, std::int64_t number);

}  // namespace mtl
