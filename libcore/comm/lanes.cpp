#include "comm/lanes.h"

#include <algorithm>

namespace mtl {

bool Lane::progress() {
  while (remaining_ > 0 && pending_ < kInFlight) {
    std::size_t bytes = std::min(remaining_, end_.segment);
    MpiWire::Message message{.group = link_.handle,
                             .peer = end_.peer,
                             .tag = end_.tag,
                             .data = data_,
                             .bytes = bytes,
                             .pending = &pending_,
                             .label = label_};
    end_.direction == Direction::send ? link_.wire->send(message) : link_.wire->receive(message);
    data_ += bytes;
    remaining_ -= bytes;
  }
  return remaining_ == 0 && pending_ == 0;
}

bool Lanes::progress() {
  bool all_complete = true;
  for (std::size_t i = first_; i < lanes_.size(); ++i) {
    all_complete = lanes_[i].progress() && all_complete;
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
