// A lane carries one long message between two ranks in segments, a few of them on their way at a time: MPI counts
// bytes in an int, and what comes in piece by piece shows that a slow exchange lives.
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
      : link_(link), label_(label), end_(end), data_(data), left_(bytes) {}
  Lane(const Lane&) = delete;  // messages on their way count down in pending_

  /// Starts what may be started; true when everything is through.
  bool move_on();

 private:
  const GroupLink& link_;
  const OperationLabel* label_;
  End end_;
  std::byte* data_;
  std::size_t left_;
  int pending_ = 0;
};

/// Lanes that belong together.
class Lanes {
 public:
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    lanes_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  /// True when all are through.
  bool move_on();

 private:
  std::deque<Lane> lanes_;  // a deque leaves its elements where they are
  std::size_t first_ = 0;   // those before it are through
};

/// Messages of different kinds, or of operations near each other in a group's sequence, have different tags.
int tag_of(OperationKind kind, std::int64_t number);

}  // namespace mtl
