// A lane is one end of a long message. The message is sent in segments, because MPI counts bytes in an int, and because
// each segment that arrives shows that a slow exchange is making progress. The number of segments in flight is limited.
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
    std::size_t segment = kSegment;  // in bytes; the same on both ends
  };

  Lane(const GroupLink& link, const OperationLabel* label, const End& end, std::byte* data, std::size_t bytes)
      : link_(link), label_(label), end_(end), data_(data), remaining_(bytes) {}
  Lane(const Lane&) = delete;  // messages in flight hold pointers to pending_

  /// Starts segments until the limit is reached. Returns true when all segments have been sent or received.
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
  /// Lets all lanes make progress. Returns true when all lanes are complete.
  bool progress();

 private:
  std::deque<Lane> lanes_;  // a deque, which never moves its elements
  std::size_t first_ = 0;   // lanes before this one are complete
};

/// Returns a message tag. Operations of different kinds always have different tags. Operations of the same kind have
/// different tags unless their numbers differ by a multiple of 4096.
int tag_of(OperationKind kind, std::int64_t number);

}  // namespace mtl
