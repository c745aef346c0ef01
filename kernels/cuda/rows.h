// Kernels over rows of any width. A team of threads shares a row: a warp or, if the row is wider than a warp's
// registers hold, the whole block. A thread's groups of a row are loaded together, without branches: a thread that has
// no group loads the last one again, and ignores it.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

/// How a kernel is compiled for rows: a warp or a block shares a row, and a thread has up to `packs` groups of `n`
/// elements, which stay in registers from one pass to the next. If `packs` is 0, rows are too wide, or not aligned for
/// groups: each pass reads memory again.
template <int n_, int packs_, bool by_warp_>
struct RowKind {
  static constexpr int n = n_, packs = packs_;
  static constexpr bool by_warp = by_warp_;
  static constexpr int most_threads = packs > 1 && !by_warp ? 512 : 256;  // that share a row, or in a block of warps
  /// So many of the groups exist in all rows that the lists below give this kind.
  static constexpr int sure = by_warp ? packs - (packs > 4 ? 2 : 1) : packs / 2;

  static bool fits(std::int64_t width) { return width <= std::int64_t{by_warp ? kWarp : most_threads} * packs * n; }
};

/// Kinds for kernels that are called with the first one that fits a row. In the first list, a row has as few warps as
/// possible, because each has instructions of its own; it is the same for rows in memory and for sums, whose results
/// must have the same bits. In the second, threads also keep column sums in registers. Heads have few elements.
template <class... Kinds>
struct RowKinds {};
using NarrowToWide = RowKinds<RowKind<8, 1, true>, RowKind<8, 2, true>, RowKind<8, 3, true>, RowKind<8, 4, true>,
                              RowKind<8, 6, true>, RowKind<8, 8, true>, RowKind<8, 4, false>>;
using WithColumnSums = RowKinds<RowKind<8, 1, true>, RowKind<8, 2, true>, RowKind<8, 3, true>, RowKind<8, 4, true>,
                                RowKind<8, 1, false>, RowKind<8, 2, false>>;
using OfHeads = RowKinds<RowKind<8, 1, true>>;

/// Calls body(RowKind<...>()) for rows of `width` elements in these tensors.
template <class... Kinds, class Body>
void with_row_kind(RowKinds<Kinds...>, std::int64_t width, std::initializer_list<Tensor> tensors, const Body& body) {
  with_pack_size(width, tensors, [&]<int n>(std::integral_constant<int, n>) {
    if constexpr (n > 1) {
      if (((Kinds::fits(width) && (body(Kinds()), true)) || ...)) return;
    }
    body(RowKind<n, 0, false>());
  });
}

/// Floats at the start of shared memory that Team::sum() uses in a block. A kernel's own floats come after them.
inline constexpr int kTeamSums = 4 * kWarp;

/// Returns a launch with one team per row, and at most `most` threads in a block of several teams.
template <class Kind>
LaunchShape rows_shape(Kind, std::int64_t rows, std::int64_t width, std::int64_t most = 256) {
  const std::int64_t groups = (width + Kind::n - 1) / Kind::n, per_thread = std::max(Kind::packs, 1),
                     in_warp = kWarp * per_thread,
                     in_row = std::min<std::int64_t>((groups + in_warp - 1) / in_warp * kWarp, Kind::most_threads),
                     threads = Kind::by_warp ? std::min(most, rows * kWarp) : in_row,
                     teams = Kind::by_warp ? threads / kWarp : 1;
  return {.blocks = static_cast<unsigned>(teams == 0 ? 0 : (rows + teams - 1) / teams),
          .threads = static_cast<unsigned>(threads),
          .shared_bytes = kTeamSums * sizeof(float)};
}

/// This thread's team, and its groups in a row of `width` elements: the same columns in every row.
template <class Kind>
class Team {
 public:
  static constexpr int n = Kind::n, packs = Kind::packs;

  __device__ explicit Team(int width) : width_(width) {}
  __device__ int thread() const { return Kind::by_warp ? lane() : thread_in_block(); }
  __device__ int in_block() const { return Kind::by_warp ? warp_in_block() : 0; }
  __device__ int in_every_block() const { return Kind::by_warp ? warps_in_block() : 1; }
  /// Returns the team's first row, in a launch with a team per row or fewer.
  __device__ std::int64_t first_row() const { return std::int64_t{blockIdx.x} * in_every_block() + in_block(); }
  __device__ std::int64_t all_teams() const { return std::int64_t{gridDim.x} * in_every_block(); }

  /// Replaces values with their sums over the team, which each of its threads gets. Consecutive calls use different
  /// memory, so that one barrier per call is enough.
  template <int count>
  __device__ void sum(float (&values)[count]) {
    static_assert(2 * count * kWarp <= kTeamSums);
#pragma unroll
    for (int c = 0; c < count; ++c) values[c] = warp_sum(values[c]);
    if constexpr (!Kind::by_warp) {
      float* slots = shared_memory<float>() + turn_ * count * kWarp;
      turn_ ^= 1;
#pragma unroll
      for (int c = 0; c < count; ++c)
        if (lane() == 0) slots[c * kWarp + warp_in_block()] = values[c];
      __syncthreads();
#pragma unroll
      for (int c = 0; c < count; ++c) values[c] = warp_sum(lane() < warps_in_block() ? slots[c * kWarp + lane()] : 0);
    }
  }
  __device__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

  /// Calls body(k, i, holds) for each of this thread's groups: number k, from column i on. Unless it `holds`, the row
  /// has no such group, and i is the last group's column.
  template <class Body>
  __device__ void over_row(const Body& body) const {
    if constexpr (packs == 0) {
      for (int i = thread() * n; i < width_; i += threads_in_block() * n) body(0, i, true);
    } else {
      const int size = Kind::by_warp ? kWarp : threads_in_block();
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        const int i = (k * size + thread()) * n;
        if (k < Kind::sure)
          body(k, i, true);
        else
          body(k, i < width_ ? i : width_ - n, i < width_);
      }
    }
  }

 private:
  int width_, turn_ = 0;
};

/// A thread's groups of a row, as stored. If Kind::packs is 0, keep() does nothing, and get() reads memory again.
template <class Kind, class T>
struct KeptRow {
  StoredPack<T, Kind::n> kept[Kind::packs == 0 ? 1 : Kind::packs];

  __device__ void keep(int k, const T* from) {
    if constexpr (Kind::packs > 0) kept[k] = load_stored<Kind::n>(from);
  }
  __device__ StoredPack<T, Kind::n> get(int k, const T* from) const {
    if constexpr (Kind::packs > 0) return kept[k];
    return load_stored<Kind::n>(from);
  }
};

}  // namespace mtl::cuda
