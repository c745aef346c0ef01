// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998). Generates the same numbers as std::mt19937, but 624 at a
// time, in loops that the compiler can vectorize.
#pragma once

#include <array>
#include <cstdint>

namespace mtl {

class Mt19937 {
 public:
  static constexpr std::size_t kBlock = 624;

  explicit Mt19937(std::uint32_t seed);
  std::uint32_t next() {
    if (at_ == kBlock) refill();
    return out_[at_++];
  }
  /// Returns the unread numbers in the current block, and sets `count` to how many there are, which is at least 1. To
  /// mark the first n unread numbers as read, call consume(n).
  const std::uint32_t* unread(std::size_t& count) {
    if (at_ == kBlock) refill();
    count = kBlock - at_;
    return out_.data() + at_;
  }
  void consume(std::size_t count) { at_ += count; }

 private:
  void refill();

  std::array<std::uint32_t, kBlock> state_, out_;
  std::size_t at_ = kBlock;
};

}  // namespace mtl
