// Kernels over rows of any width. Neighboring threads in a block form a team and share a row. For a narrow row, the
// team has one lane per pack of 8 elements, up to a warp. For a wide row, it is the whole block. All threads in a block
// make the same number of iterations, so they can synchronize. A team without a row gets a row of width 0.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

/// Returns the team size, a power of two, for rows of `width` elements: a warp at most, or a block if the row is wider
/// than `wide`.
inline int team_size(std::int64_t width, int wide) {
  constexpr int kBlock = 256;
  if (width > wide) return kBlock;
  int threads = 1;
  while (threads < kWarp && threads * 8 < width) threads *= 2;
  return threads;
}

struct RowsShape {
  int team;
  LaunchShape launch;
};

/// Floats at the start of shared memory that Team::sum() uses as scratch memory across a block. A kernel's own floats
/// come after them.
inline constexpr int kTeamSums = kWarp;

/// Returns a launch with one team per row, which is a block if the row is wider than `wide` elements.
inline RowsShape rows_shape(std::int64_t rows, std::int64_t width, int wide) {
  constexpr std::int64_t kThreads = 256;
  const std::int64_t team = team_size(width, wide), in_warp = std::max<std::int64_t>(kWarp / team, 1);
  const std::int64_t teams = std::min(kThreads / team, (rows + in_warp - 1) / in_warp * in_warp);
  return {.team = static_cast<int>(team),
          .launch = {.blocks = static_cast<unsigned>(teams == 0 ? 0 : (rows + teams - 1) / teams),
                     .threads = static_cast<unsigned>(teams * team),
                     .shared_bytes = kTeamSums * sizeof(float)}};
}

/// A thread's groups of a row, which stay in registers from one pass to the next. If `packs` is 0, the row is too wide,
/// or not aligned for groups: keep() then does nothing, and get() reads memory again.
template <int n, int packs>
struct KeptRow {
  Pack<n> kept[packs == 0 ? 1 : packs];

  template <class T>
  __device__ void keep(int k, const T* from) {
    if constexpr (packs > 0) kept[k] = load<n>(from);
  }
  template <class T>
  __device__ Pack<n> get(int k, const T* from) const {
    if constexpr (packs > 0) return kept[k];
    return load<n>(from);
  }
};

/// Calls body(n, packs), both std::integral_constant, with n from with_pack_size(), and with the smallest of `choices`,
/// in ascending order, that holds a row's groups per thread. `packs` is 0 if there is none, or if n is 1.
template <int... choices, class Body>
void with_row_packs(std::int64_t width, int team, std::initializer_list<Tensor> tensors, const Body& body) {
  with_pack_size(width, tensors, [&]<int n>(std::integral_constant<int, n> pack) {
    if constexpr (n > 1) {
      const bool is_held =
          ((width <= std::int64_t{choices} * team * n && (body(pack, std::integral_constant<int, choices>()), true)) ||
           ...);
      if (is_held) return;
    }
    body(pack, std::integral_constant<int, 0>());
  });
}

/// This thread's team.
struct Team {
  int size;

  __device__ int thread() const { return thread_in_block() & (size - 1); }
  __device__ int in_block() const { return thread_in_block() / size; }
  __device__ int teams() const { return threads_in_block() / size; }

  /// Sums `value` over the team and returns the result to every thread in it.
  __device__ float sum(float value) const {
    return size > kWarp ? block_sum(value, shared_memory<float>()) : sum_in_warp(value);
  }
  /// Like the function above, for a team that is a warp at most.
  __device__ float sum_in_warp(float value) const {
    for (int distance = size / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
    return value;
  }

  /// Calls body(row, width) for each of this team's rows. `width` is 0 past the last row.
  template <class Body>
  __device__ void over_rows(std::int64_t rows, int width, const Body& body) const {
    for (std::int64_t first = std::int64_t{blockIdx.x} * teams(); first < rows;
         first += std::int64_t{gridDim.x} * teams()) {
      const std::int64_t row = first + in_block();
      body(row, row < rows ? width : 0);
    }
  }

  /// Calls body(i) for each group of `n` elements that this thread handles in a row. A thread handles the same columns
  /// in every row.
  template <int n, class Body>
  __device__ void over_row(int width, const Body& body) const {
    for (int i = thread() * n; i < width; i += size * n) body(i);
  }
  /// Like the function above, but calls body(k, i) for this thread's group k, and unrolls the loop if `packs` is not 0:
  /// a row has at most `packs` groups per thread.
  template <int n, int packs, class Body>
  __device__ void over_row(int width, const Body& body) const {
    if constexpr (packs == 0) {
      over_row<n>(width, [&](int i) { body(0, i); });
    } else {
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        const int i = (k * size + thread()) * n;
        if (i < width) body(k, i);
      }
    }
  }
};

}  // namespace mtl::cuda
