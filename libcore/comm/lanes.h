// A lane is one end of a long message. We send the message in segments, because MPI counts bytes in an int, and because
// each segment that arrives shows that a slow exchange is still making progress. The number of segments in flight is
// limited.
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
    int peer;  // a group rank
    int tag;
    std::size_t segment = kSegment;  // in bytes, the same on both ends
  };

  Lane(const GroupLink& link, const OperationLabel* label, const End& end, std::byte* data, std::size_t bytes)
      : link_(link), label_(label), end_(end), data_(data), remaining_(bytes) {}
  Lane(const Lane&) = delete;  // messages in flight point to pending_

  /// Starts segments up to the limit. Returns true when all segments have been sent or received.
  bool progress();

 private:
  const GroupLink& link_;
  const OperationLabel* label_;
  End end_;
  std::byte* data_;
  std::size_t remaining_;
  int pending_ = 0;
};

/// All lanes in one operation.
class Lanes {
 public:
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    lanes_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  /// Advances all lanes. Returns true when all of them are complete.
  bool progress();

 private:
  std::deque<Lane> lanes_;  // must not move its elements
  std::size_t first_ = 0;   // all lanes before this one are complete
};

/// Returns a message tag. Two operations get different tags if they differ in kind, or if their numbers differ by
/// anything but a multiple of 4096.
int tag_of(OperationKind kind, std::int64_t number);

}  // namespace mtl
