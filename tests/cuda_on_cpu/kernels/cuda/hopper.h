// Replaces kernels/cuda/hopper.h in tests: the same functions, emulated on the CPU. shared_address() returns addresses
// that fit into descriptors. A copy fills its target with NaN when it starts, and the data arrive when a thread waits
// for them. A matmul reads shared memory and writes its accumulators only when a thread waits for it. Descriptors and
// the swizzle are decoded as the PTX ISA defines them. The code is independent of kernels/cuda/hopper_layout.h, which
// encodes them.
#pragma once

#include <functional>
#include <map>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/hopper_layout.h"
#include "tests/cuda_on_cpu/kernels/cuda/mma.h"
#include "tests/cuda_on_cpu/wait_until.h"

#define MTL_HOPPER_CODE 1

namespace mtl::cuda {
using TensorMap = PanelMap;
using Barrier = std::uint64_t;
}  // namespace mtl::cuda

namespace mtl::emulated {

/// Returns the address that shared addresses count from: the start of shared memory, rounded down to a multiple of
/// 1024.
inline std::byte* shared_window() {
  const auto base = reinterpret_cast<std::uintptr_t>(shared_memory());
  return reinterpret_cast<std::byte*>(base / 1024 * 1024);
}
/// XORs address bits 4 to 6 with bits 7 to 9.
inline std::uint32_t swizzle_128(std::uint32_t address) {
  const std::uint32_t piece = address / 16 % 8, row = address / 128 % 8;
  return address - piece * 16 + (piece ^ row) * 16;
}

struct BarrierState {
  std::uint8_t parity, count, arrived, mark;
  std::int32_t bytes;  // announced minus arrived
};
inline constexpr std::uint8_t kInitialized = 0x5a, kReady = 0x5b;  // BarrierState::mark
inline BarrierState& state_of(cuda::Barrier* barrier) {
  static_assert(sizeof(BarrierState) == sizeof(cuda::Barrier));
  auto& state = *reinterpret_cast<BarrierState*>(barrier);
  require(state.mark == kReady, state.mark == kInitialized ? "a barrier is used before barriers_ready()"
                                                           : "a barrier is used before barrier_init()");
  return state;
}
inline void end_phase_if_complete(BarrierState& state) {
  if (state.arrived < state.count || state.bytes != 0) return;
  state.arrived = 0;
  state.parity ^= 1;
}

/// Returns the copies pending for each barrier in the running block.
inline std::map<cuda::Barrier*, std::vector<std::function<void()>>>& pending_panels() {
  static std::map<cuda::Barrier*, std::vector<std::function<void()>>> all;
  return all;
}
inline void finish_copies(cuda::Barrier* barrier) {
  const auto found = pending_panels().find(barrier);
  if (found == pending_panels().end()) return;
  const auto copies = std::move(found->second);
  pending_panels().erase(found);
  for (const auto& copy : copies) copy();
}

/// The barriers that the running thread has initialized, but not made visible to the copy engine (PTX ISA,
/// fence.mbarrier_init and "Async proxy").
inline std::vector<cuda::Barrier*>& new_barriers() {
  static std::vector<cuda::Barrier*> all;
  return all;
}

/// A thread's pending matmuls: those not committed yet, and the committed groups.
struct Products {
  bool fenced = false;
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> groups;
};
inline Products& products_of_thread() {
  static std::vector<Products> all(1024);
  return all[threadIdx.x];
}

/// Returns the group to which the running thread adds a matmul.
inline std::vector<std::function<void()>>& open_products() {
  require(products_of_thread().fenced, "a wgmma without wgmma_begin() since the last group");
  return products_of_thread().open;
}

/// A decoded matrix descriptor.
struct Matrix {
  std::uint32_t start, leading, stride;
  explicit Matrix(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) * 16),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) * 16),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) * 16) {
    require(bits >> 62 == 1, "a matrix descriptor lacks the 128-byte swizzle");
    require((bits >> 49 & 7) == 0 && (bits >> 14 & 3) == 0 && (bits >> 30 & 3) == 0,
            "a matrix descriptor has unknown bits");
  }
  /// Reads `n` adjacent elements, which do not cross a multiple of 16 bytes.
  template <class T, std::size_t n>
  std::array<T, n> at(int offset) const {
    std::array<T, n> values;
    std::memcpy(&values, shared_window() + swizzle_128(start + static_cast<std::uint32_t>(offset)), sizeof(values));
    return values;
  }
  /// Reads elements 0 to 15 of row i. The matrix must be K-major: its rows run along the summed dimension.
  template <class T>
  void read_row(int i, float (&out)[16]) const {
    for (int half = 0; half < 2; ++half) {
      const auto values = at<T, 8>(i % 8 * 128 + i / 8 * static_cast<int>(stride) + half * 16);
      for (std::size_t k = 0; k < 8; ++k) out[static_cast<std::size_t>(half) * 8 + k] = widen(values[k]);
    }
  }
  /// Reads elements i and i + 1 of rows 0 to 15. The matrix must not be K-major: its columns run along the summed
  /// dimension. i must be even.
  template <class T>
  void read_columns(int i, float (&out)[2][16]) const {
    for (int k = 0; k < 16; ++k) {
      const auto pair =
          at<T, 2>(k % 8 * 128 + k / 8 * static_cast<int>(stride) + i % 64 * 2 + i / 64 * static_cast<int>(leading));
      for (std::size_t side = 0; side < 2; ++side) out[side][k] = widen(pair[side]);
    }
  }
};

/// Computes d += a b for the running thread's rows and columns: read_row(row, out) reads a row of a, and
/// read_columns(column, out) two adjacent columns of b.
template <int n, class ReadRow, class ReadColumns>
void multiply_fragment(cuda::Sums<n>& d, const ReadRow& read_row, const ReadColumns& read_columns) {
  const int thread = static_cast<int>(threadIdx.x) % 128, g = thread % 32 / 4, q = thread % 4;
  float rows[2][16], columns[2][16];
  for (int half = 0; half < 2; ++half) read_row(thread / 32 * 16 + g + 8 * half, rows[half]);
  for (int j = 0; j < n; ++j) {
    read_columns(8 * j + 2 * q, columns);
    for (int i = 0; i < 4; ++i) {
      float sum = d.v[j][i];
      for (int k = 0; k < 16; ++k) sum += rows[i / 2][k] * columns[i % 2][k];
      d.v[j][i] = sum;
    }
  }
}

}  // namespace mtl::emulated

namespace mtl::cuda {

inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(at) - emulated::shared_window());
}

inline TensorMap make_tensor_map(const PanelMap& map) {
  require(reinterpret_cast<std::uintptr_t>(map.address) % 16 == 0, "a tensor map's address is not aligned");
  for (const std::uint64_t stride : map.strides) require(stride % 16 == 0, "a tensor map's rows are not aligned");
  for (const std::uint32_t size : map.box)
    require(size > 0 && size <= 256, "a tensor map's box has ", size, " elements");
  require(map.box[0] * size_of(map.dtype) == 128,
          "a tensor map's box does not have rows of 128 bytes, as its swizzle needs");
  return map;
}

inline void barrier_init(Barrier* barrier, unsigned count) {
  const emulated::BarrierState state{0, static_cast<std::uint8_t>(count), 0, emulated::kInitialized, 0};
  std::memcpy(barrier, &state, sizeof(state));
  emulated::new_barriers().push_back(barrier);
}
inline void barriers_ready() {
  emulated::pending_panels().clear();
  for (Barrier* barrier : emulated::new_barriers())
    reinterpret_cast<emulated::BarrierState*>(barrier)->mark = emulated::kReady;
  emulated::new_barriers().clear();
}
inline void barrier_arrive_expecting(Barrier* barrier, unsigned bytes) {
  emulated::BarrierState& state = emulated::state_of(barrier);
  require(state.arrived < state.count, "a barrier has more arrivals than its count");
  state.bytes += static_cast<std::int32_t>(bytes);
  ++state.arrived;
  emulated::end_phase_if_complete(state);
}
inline void barrier_arrive(Barrier* barrier) { barrier_arrive_expecting(barrier, 0); }
inline void barrier_wait(Barrier* barrier, unsigned parity) {
  emulated::wait_until("a barrier", [=] {
    emulated::finish_copies(barrier);
    return emulated::state_of(barrier).parity != parity;
  });
}

inline void copy_panel(void* to, const TensorMap& map, Barrier* barrier, int column, int head, int group, int position,
                       int sequence) {
  const std::uint32_t target = shared_address(to), rows = map.box[3];
  require(target % 1024 == 0, "a copy's target does not begin at an atom");
  std::fill_n(emulated::shared_window() + target, rows * 128, std::byte{0xff});
  const std::array<std::int64_t, 5> first{column, head, group, position, sequence};
  emulated::pending_panels()[barrier].push_back([=] {
    for (std::uint32_t row = 0; row < rows; ++row) {
      const std::array<std::int64_t, 5> at{first[0], first[1], first[2], first[3] + row, first[4]};
      std::int64_t offset = 0;
      bool inside = true;
      for (std::size_t i = 1; i < 5; ++i) {
        inside &= at[i] >= 0 && at[i] < static_cast<std::int64_t>(map.sizes[i]);
        offset += at[i] * static_cast<std::int64_t>(map.strides[i - 1]);
      }
      for (std::uint32_t e = 0; e < 64; ++e) {
        const std::int64_t column = at[0] + e;
        std::uint16_t bits = 0;
        if (inside && column >= 0 && column < static_cast<std::int64_t>(map.sizes[0]))
          std::memcpy(&bits, static_cast<const std::byte*>(map.address) + offset + column * 2, 2);
        std::memcpy(emulated::shared_window() + emulated::swizzle_128(target + row * 128 + e * 2), &bits, 2);
      }
    }
    emulated::BarrierState& state = emulated::state_of(barrier);
    state.bytes -= static_cast<std::int32_t>(rows * 128);
    emulated::end_phase_if_complete(state);
  });
}

template <int count>
void grow_registers() {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256);
}
template <int count>
void shrink_registers() {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256);
}

/// Required before the first matmul, and whenever registers that a matmul uses have changed (PTX ISA, wgmma.fence).
/// Callers change them between groups.
template <int n>
void wgmma_begin(Sums<n>&) {
  emulated::products_of_thread().fenced = true;
}
inline void wgmma_commit() {
  emulated::Products& products = emulated::products_of_thread();
  products.fenced = false;
  products.groups.push_back(std::move(products.open));
  products.open.clear();
}
template <int pending, int n>
void wgmma_end(Sums<n>&) {
  auto& groups = emulated::products_of_thread().groups;
  for (; groups.size() > std::size_t{pending}; groups.pop_front())
    for (const auto& product : groups.front()) product();
}

template <class T, int n>
void wgmma_rows(Sums<n>& d, std::uint64_t a, std::uint64_t b, bool accumulate) {
  __syncwarp();
  emulated::open_products().push_back([&d, left = emulated::Matrix(a), right = emulated::Matrix(b), accumulate] {
    if (!accumulate) d = {};
    emulated::multiply_fragment(
        d, [&](int row, float(&out)[16]) { left.read_row<T>(row, out); },
        [&](int column, float(&out)[2][16]) {
          for (int i = 0; i < 2; ++i) right.read_row<T>(column + i, out[i]);
        });
  });
}
template <class T, int n>
void wgmma_columns(Sums<n>& d, const std::uint32_t (&a)[4], std::uint64_t b) {
  using Operands = std::array<std::uint32_t, 4>;
  std::array<Operands, 32> all;
  std::copy_n(emulated::gather("wgmma", ~0u, Operands{a[0], a[1], a[2], a[3]}), 32, all.begin());
  emulated::open_products().push_back([&d, all, right = emulated::Matrix(b)] {
    emulated::multiply_fragment(
        d,
        [&](int row, float(&out)[16]) {  // in mma.h's layout for A
          for (int k = 0; k < 16; ++k) {
            const auto& holder = all[static_cast<std::size_t>(row % 8 * 4 + k % 8 / 2)];
            const std::uint32_t pair = holder[static_cast<std::size_t>(row % 16 / 8 + k / 8 * 2)];
            out[k] = widen(T{static_cast<std::uint16_t>(k % 2 == 0 ? pair & 0xffff : pair >> 16)});
          }
        },
        [&](int column, float(&out)[2][16]) { right.read_columns<T>(column, out); });
  });
}

}  // namespace mtl::cuda
