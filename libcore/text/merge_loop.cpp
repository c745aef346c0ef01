#include "text/merge_loop.h"

#include <bit>

namespace mtl {

PairTable::PairTable(std::size_t pairs) {
  std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * pairs));
  slots_.resize(size);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
}

void PairTable::set(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t joined) {
  std::uint64_t key = std::uint64_t{left} << 32 | right;
  std::size_t at = home(key);
  while (slots_[at].key != kNone && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, std::uint64_t{rank} << 32 | joined};
}

}  // namespace mtl
