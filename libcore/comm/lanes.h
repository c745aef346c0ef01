// A lane is one end of a long message. We send the message in segments, because MPI counts bytes in an int, and because
// each segment that arrives shows that a slow exchange is still making progress. The number of segments in flight is
// limited.
#pragma once

#include <deque>

#include "comm/collectives.h"

namespace mtl {

/// All lanes in one operation.
class Lanes {
 public:
  static constexpr std::size_t kSegment = 1 << 20;

  /// The segments have `segment` bytes, the same on both ends. The caller must keep `link` and `label` alive.
  Lanes(const GroupLink& link, const OperationLabel* label, int tag, std::size_t segment = kSegment)
      : link_(link), label_(label), tag_(tag), segment_(segment) {}
  Lanes(const Lanes&) = delete;  // messages in flight point to Lane::pending

  /// Add a lane to the member `peer`, or from it.
  void send(int peer, std::byte* data, std::size_t bytes) { lanes_.push_back({true, peer, data, bytes}); }
  void receive(int peer, std::byte* data, std::size_t bytes) { lanes_.push_back({false, peer, data, bytes}); }
  /// Starts segments of all lanes up to the limit. Returns true when all of them have been sent or received.
  bool progress();

 private:
  static constexpr int kInFlight = 32;

  struct Lane {
    bool sends;
    int peer;
    std::byte* data;
    std::size_t remaining;
    int pending = 0;
  };
  bool progress(Lane& lane) const;

  const GroupLink& link_;
  const OperationLabel* label_;
  int tag_;
  std::size_t segment_;
  std::deque<Lane> lanes_;  // must not move its elements
  std::size_t first_ = 0;   // all lanes before this one are complete
};

/// Returns a message tag. Two operations get different tags if they differ in kind, or if their numbers differ by
/// anything but a multiple of 4096.
int tag_of(OperationKind kind, std::int64_t number);

}  // namespace mtl
