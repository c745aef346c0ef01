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
  /// Returns the next 624 numbers. They are valid until the next call.
  const std::array<std::uint32_t, kBlock>& next_block();

 private:
  std::array<std::uint32_t, kBlock> state_, out_;
};

/// Mt19937's numbers, one at a time.
class Mt19937Stream {
 public:
  explicit Mt19937Stream(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t next() {
    if (at_ == Mt19937::kBlock) refill();
    return (*block_)[at_++];
  }
  /// Returns the unread numbers in the current block, and sets `count` to how many there are, which is at least 1. To
  /// mark the first n unread numbers as read, call consume(n).
  const std::uint32_t* unread(std::size_t& count) {
    if (at_ == Mt19937::kBlock) refill();
    count = Mt19937::kBlock - at_;
    return block_->data() + at_;
  }
  void consume(std::size_t count) { at_ += count; }

 private:
  void refill() {
    block_ = &engine_.next_block();
    at_ = 0;
  }

  Mt19937 engine_;
  const std::array<std::uint32_t, Mt19937::kBlock>* block_ = nullptr;
  std::size_t at_ = Mt19937::kBlock;
};

}  // namespace mtl
