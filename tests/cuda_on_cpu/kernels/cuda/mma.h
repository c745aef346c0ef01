// Replaces kernels/cuda/mma.h in tests: the same functions, emulated on the CPU. Each lane passes its ldmatrix row by
// value, so a row that is written too late is read as NaN. A copy fills its target with NaN when it starts. The data
// arrive when a thread waits for them.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/cuda_on_cpu/kernels/cuda/platform.h"

namespace mtl::emulated {

struct Row8 {
  std::array<std::uint16_t, 8> elements;
};
inline const Row8* gather_rows(const char* what, const void* row) {
  cuda::expect_aligned(row, 16);
  Row8 own;
  std::memcpy(&own, row, sizeof(own));
  return gather(what, ~0u, own);
}
inline std::uint32_t pair_of(std::uint16_t low, std::uint16_t high) { return std::uint32_t{high} << 16 | low; }

struct Copy {
  std::byte* to;
  const std::byte* from;  // null: zeros
  std::size_t bytes;
};
/// A thread's pending copies: those not committed yet, and the committed groups.
struct Copies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};
inline Copies& copies_of_thread() {
  static std::vector<Copies> all(1024);
  return all[threadIdx.x];
}
inline void start_copy(void* to, const void* from, bool inside, std::size_t bytes) {
  cuda::expect_aligned(to, static_cast<unsigned>(bytes));
  if (inside) cuda::expect_aligned(from, static_cast<unsigned>(bytes));
  auto* target = static_cast<std::byte*>(to);
  std::fill_n(target, bytes, std::byte{0xff});
  copies_of_thread().open.push_back({target, inside ? static_cast<const std::byte*>(from) : nullptr, bytes});
}
inline void finish(const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    if (copy.from == nullptr)
      std::fill_n(copy.to, copy.bytes, std::byte{0});
    else
      std::copy_n(copy.from, copy.bytes, copy.to);
  }
}

}  // namespace mtl::emulated

namespace mtl::cuda {

inline void ldmatrix_x4(std::uint32_t (&out)[4], const void* row) {
  const auto* rows = emulated::gather_rows("ldmatrix", row);
  const unsigned lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const auto& from = rows[8 * i + r].elements;
    out[i] = emulated::pair_of(from[2 * c], from[2 * c + 1]);
  }
}
inline void ldmatrix_x4_trans(std::uint32_t (&out)[4], const void* row) {
  const auto* rows = emulated::gather_rows("ldmatrix.trans", row);
  const unsigned lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;
  for (unsigned i = 0; i < 4; ++i)
    out[i] = emulated::pair_of(rows[8 * i + 2 * c].elements[r], rows[8 * i + 2 * c + 1].elements[r]);
}

template <class T>
void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Operands {
    float rows[16][16], columns[8][16];  // of A and of B
  };
  static_assert(sizeof(Operands) <= emulated::kMostExchanged);
  auto& all = *reinterpret_cast<Operands*>(emulated::begin_exchange());
  const unsigned lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  const auto put = [&](float(&line)[16], unsigned upper, std::uint32_t pair) {
    line[8 * upper + 2 * q] = widen(T{static_cast<std::uint16_t>(pair & 0xffff)});
    line[8 * upper + 2 * q + 1] = widen(T{static_cast<std::uint16_t>(pair >> 16)});
  };
  for (unsigned i = 0; i < 4; ++i) put(all.rows[g + i % 2 * 8], i / 2, a[i]);
  put(all.columns[g], 0, b0);
  put(all.columns[g], 1, b1);
  emulated::end_exchange("mma", ~0u);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 16; ++k) d[i] += all.rows[g + i / 2 * 8][k] * all.columns[2 * q + i % 2][k];
}

inline void cp_async_16(void* to, const void* from, bool inside) { emulated::start_copy(to, from, inside, 16); }
inline void cp_async_4(void* to, const void* from, bool inside) { emulated::start_copy(to, from, inside, 4); }
inline void cp_async_commit() {
  emulated::Copies& copies = emulated::copies_of_thread();
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}
template <int pending>
void cp_async_wait() {
  auto& groups = emulated::copies_of_thread().groups;
  for (; groups.size() > std::size_t{pending}; groups.pop_front()) emulated::finish(groups.front());
}

}  // namespace mtl::cuda
