#include "comm/lanes.h"

#include <algorithm>

namespace mtl {

bool Lanes::progress(Lane& lane) const {
  while (lane.remaining > 0 && lane.pending < kInFlight) {
    std::size_t bytes = std::min(lane.remaining, segment_);
    MpiWire::Message message{.group = link_.handle,
                             .peer = lane.peer,
                             .tag = tag_,
                             .data = lane.data,
                             .bytes = bytes,
                             .pending = &lane.pending,
                             .label = label_};
    lane.sends ? link_.wire->send(message) : link_.wire->receive(message);
    lane.data += bytes;
    lane.remaining -= bytes;
  }
  return lane.remaining == 0 && lane.pending == 0;
}

bool Lanes::progress() {
  bool all_complete = true;
  for (std::size_t i = first_; i < lanes_.size(); ++i) {
    all_complete = progress(lanes_[i]) && all_complete;
    if (all_complete) first_ = i + 1;
  }
  return all_complete;
}

int tag_of(OperationKind kind, std::int64_t number) {
  constexpr int kNumbers = 4096, kKinds = static_cast<int>(OperationKind::receive) + 1;
  static_assert(kKinds * kNumbers <= MpiWire::kMaxTag);
  return static_cast<int>(kind) * kNumbers + static_cast<int>(number % kNumbers);
}

}  // namespace mtl
