// Attention for any shape, with one warp per row. attention_cuda.cu and attention_cuda_backward.cu share this file. To
// compute scores, the lanes divide up the keys. To sum rows, they divide up a head's elements.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

inline constexpr int kRowChunk = 128;  // scores that a warp holds at a time

/// A launch with one warp per item, up to 4 per block, and `floats` floats of shared memory per warp.
struct RowLaunch {
  std::int64_t items;
  unsigned warps;
  std::size_t floats;
  RowLaunch(std::int64_t item_count, std::int64_t floats_of_warp) : items(item_count), floats(floats_of_warp) {
    constexpr std::int64_t kShared = 96 << 10;
    const std::int64_t bytes = floats_of_warp * static_cast<std::int64_t>(sizeof(float));
    require(bytes <= kShared, "attention: a head is too large for CUDA: a row needs ", bytes,
            " bytes of shared memory, at most ", kShared, " are available");
    warps = static_cast<unsigned>(kShared / bytes < 4 ? kShared / bytes : 4);
  }
  LaunchShape shape() const {
    return {.blocks = static_cast<unsigned>((items + warps - 1) / warps),
            .threads = warps * kWarp,
            .shared_bytes = warps * floats * sizeof(float)};
  }
};

/// Return the index of this warp's item, and this warp's part of shared memory.
__device__ inline std::int64_t item_of_warp() { return std::int64_t{blockIdx.x} * warps_in_block() + warp_in_block(); }
__device__ inline float* memory_of_warp(int floats) { return shared_memory<float>() + warp_in_block() * floats; }

/// Calls body(i) for this lane's share of [0, count).
template <class Body>
__device__ void over_lanes(int count, const Body& body) {
  for (int i = lane(); i < count; i += kWarp) body(i);
}

/// Writes the row to shared memory, multiplied by `factor`.
template <class T>
__device__ void stage_row(float* out, const T* row, int dim, float factor = 1) {
  over_lanes(dim, [&](int d) { out[d] = to_float(row[d]) * factor; });
}

template <int n, class T>
__device__ float dot_row(const float* a, const T* b, int dim) {
  float sum = 0;
#pragma unroll 4  // keeps loads in flight
  for (int d = 0; d < dim; d += n) {
    const Pack<n> pack = load<n>(b + d);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += a[d + i] * pack[i];
  }
  return sum;
}

/// out[d] += sum over j: factors[j] row_of(j)[d].
template <class RowOf>
__device__ void add_rows(float* out, const float* factors, int count, int dim, const RowOf& row_of) {
  over_lanes(dim, [&](int d) {
    float sum = out[d];
#pragma unroll 8  // keeps loads in flight
    for (int j = 0; j < count; ++j) sum += factors[j] * to_float(row_of(j)[d]);
    out[d] = sum;
  });
}

}  // namespace mtl::cuda
