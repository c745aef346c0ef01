#include "text/merge_loop.h"

#include <bit>

namespace mtl {

PairTable::PairTable(std::size_t pairs) {
  constexpr std::size_t kSlotsPerWord = 8;
  const std::size_t size = std::bit_ceil(std::max(2 * kSlotsPerWord, pairs + pairs / 4));
  slots_ = BigArray<Slot>(size, "a table of merges");
  filter_.resize(size / kSlotsPerWord);
  mask_ = size - 1;
  slot_shift_ = 64 - std::countr_zero(size);
  filter_shift_ = slot_shift_ + std::countr_zero(kSlotsPerWord);
}

void PairTable::set(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t merged) {
  const std::uint64_t key = key_of(left, right), hash = hash_of(key);
  std::size_t at = hash >> slot_shift_;
  while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, std::uint64_t{rank} << 32 | merged};
  filter_[hash >> filter_shift_] |= bit_of(hash);
}

}  // namespace mtl
