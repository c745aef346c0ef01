#include "comm/lanes.h"

#include <algorithm>

namespace mtl {

bool Lane::move_on() {
  while (remaining_ > 0 && pending_ < kInFlight) {
    std::size_t bytes = std::min(remaining_, end_.segment);
    MpiWire::Message message{link_.handle, end_.peer, end_.tag, data_, bytes, &pending_, label_};
    end_.direction == Direction::send ? link_.wire->send(message) : link_.wire->receive(message);
    data_ += bytes;
    remaining_ -= bytes;
  }
  return remaining_ == 0 && pending_ == 0;
}

bool Lanes::move_on() {
  bool through = true;
  for (std::size_t i = first_; i < lanes_.size(); ++i) {
    through = lanes_[i].move_on() && through;
    if (through) first_ = i + 1;
  }
  return through;
}

int tag_of(OperationKind kind, std::int64_t number) {
  constexpr int kNumbers = 4096;  // 7 kinds: below MpiWire::kMaxTag
  return static_cast<int>(kind) * kNumbers + static_cast<int>(number % kNumbers);
}

}  // namespace mtl
