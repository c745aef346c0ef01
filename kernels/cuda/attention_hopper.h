// Shared by the attention kernels for sm_90a tensor cores. Each block owns a row tile, with 64 rows per consumer
// warpgroup. In the last warpgroup, one warp is the producer: it uses TMA to prefetch the tiles that these rows need.
#pragma once

#include "kernels/cuda/hopper.h"

namespace mtl::cuda {

inline constexpr int kWarpgroup = 128;  // threads

inline constexpr std::size_t kSharedBytes = 227 << 10;  // that a block can use on sm_90

/// Returns how many stages fit beside `fixed` bytes, but at most 4: those are enough to copy ahead while two consumers
/// are a step apart.
constexpr int stages_beside(std::size_t fixed, std::size_t stage) {
  const std::size_t fit = (kSharedBytes - fixed) / stage;
  return fit < 4 ? static_cast<int>(fit) : 4;
}

/// Returns the parity of the barrier phase in which tile `i` occupies its stage.
template <int stages>
__device__ unsigned parity_of(int i) {
  return static_cast<unsigned>(i / stages % 2);
}

/// Returns the first address in shared memory that is a multiple of kAtom.
__device__ inline unsigned char* first_atom() {
  auto* base = shared_memory<unsigned char>();
  return base + (kAtom - shared_address(base) % kAtom) % kAtom;
}

/// Returns the size of a `rows`-row tile in bytes, for barrier_arrive_expecting(). Elements have 16 bits.
template <int dim>
constexpr unsigned tile_bytes(int rows) {
  return static_cast<unsigned>(rows * dim) * 2;
}
/// Starts copying `rows` rows of a head, from `position` on, into all panels of a tile. The caller must already have
/// made `full` expect these bytes.
template <int dim, class T>
__device__ void copy_tile(T* to, const TensorMap& map, Barrier* full, int rows, int head, int group, int position,
                          int sequence) {
#pragma unroll
  for (int column = 0; column < dim; column += kPanel)
    copy_panel(to + column * rows, map, full, column, head, group, position, sequence);
}

/// What to add to a matrix descriptor for a matrix that starts `elements` 16-bit elements later. Carries would change
/// other fields, but shared memory ends before the field's 256 KiB.
constexpr std::uint64_t later(int elements) { return static_cast<std::uint64_t>(elements) * 2 / 16; }

/// Starts sums (64, 8 n) = A B^T as a separate wgmma group. A is 64 rows in a tile of `a_rows` rows, and `a` points
/// into that tile's first panel. B is a tile of 8 n rows.
template <class T, int dim, int a_rows, int n>
__device__ void start_product_of_rows(Sums<n>& sums, const T* a, const T* b) {
  constexpr std::uint32_t kUnused = 16;  // by convention; wgmma ignores it
  const std::uint64_t first_a = matrix_descriptor(shared_address(a), kUnused, kAtom);
  const std::uint64_t first_b = matrix_descriptor(shared_address(b), kUnused, kAtom);
  wgmma_begin(sums);
#pragma unroll
  for (int k = 0; k < dim; k += 16) {
    const int panel = k / kPanel, column = k % kPanel;
    wgmma_rows<T>(sums, first_a + later(panel * a_rows * kPanel + column),
                  first_b + later(panel * 8 * n * kPanel + column), k > 0);
  }
  wgmma_commit();
}

/// Scores rounded to T, as A operands of 16 columns each.
template <int n>
using AllOfA = std::uint32_t[n / 2][4];
template <class T, int n>
__device__ void round_to_all_of_a(AllOfA<n>& a, const Sums<n>& scores) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) round_to_a<T>(a[k], scores, k);
}

/// Starts sums (64, D) += A B as a separate wgmma group. A (64, 16 steps) must not change until the group completes. B
/// is a tile of 16 * steps rows.
template <class T, int m, int steps>
__device__ void start_product_of_columns(Sums<m>& sums, const std::uint32_t (&a)[steps][4], const T* tile) {
  const std::uint64_t first = matrix_descriptor(shared_address(tile), 16 * steps * kPanelRow, kAtom);
  wgmma_begin(sums);
#pragma unroll
  for (int k = 0; k < steps; ++k) wgmma_columns<T>(sums, a[k], first + later(16 * k * kPanel));
  wgmma_commit();
}

/// Assigns the roles: the last warpgroup gives up registers, and its first warp calls produce(); the other warpgroups
/// call consume(warpgroup).
template <class Tile, class Produce, class Consume>
__device__ void with_roles(const Produce& produce, const Consume& consume) {
  constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;  // average: the launch's 168 per thread
  const int warpgroup = __shfl_sync(kAllLanes, thread_in_block() / kWarpgroup, 0);
  if (warpgroup == Tile::kConsumers) {
    shrink_registers<kProducerRegisters>();
    if (warp_in_block() % 4 == 0) produce();
  } else {
    grow_registers<kConsumerRegisters>();
    consume(warpgroup);
  }
}

/// A block's query tile, and the range of keys to visit, which starts at a key tile.
struct HopperQueries : QueryTile {
  int first_key, end_key;
  __device__ HopperQueries(const AttentionShape& shape, const TileOrder& order, int queries, int keys)
      : QueryTile(shape, order, queries) {
    const SeenKeys seen(shape, b, first, queries);
    first_key = seen.lowest / keys * keys;
    end_key = seen.highest;
  }
};

}  // namespace mtl::cuda
