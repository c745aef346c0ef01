// Loops over a row's columns with a warp, and computes sums and maxima across a warp or a block in a fixed order.
#pragma once

#include "kernels/cuda/platform.h"

namespace mtl::cuda {

// Indices and sizes as int, for the signed arithmetic of rows and columns.
__device__ inline int block_in_grid() { return static_cast<int>(blockIdx.x); }
__device__ inline int thread_in_block() { return static_cast<int>(threadIdx.x); }
__device__ inline int threads_in_block() { return static_cast<int>(blockDim.x); }
__device__ inline int warp_in_block() { return static_cast<int>(threadIdx.x / kWarp); }
__device__ inline int warps_in_block() { return static_cast<int>(blockDim.x / kWarp); }
__device__ inline int lane() { return static_cast<int>(threadIdx.x % kWarp); }

/// Calls body(i) for each group of `n` row elements that this lane handles: i, i + 1, ...
template <int n, class Body>
__device__ void over_row(int width, const Body& body) {
  for (int i = lane() * n; i < width; i += kWarp * n) body(i);
}

/// Reduces the values in all lanes of the warp with combine(a, b), and returns the result to every lane. combine() must
/// be commutative, because lanes pass the arguments in either order.
template <class T, class Combine>
__device__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}
template <class T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}
__device__ inline float warp_max(float value) {
  return warp_reduce(value, [](float a, float b) { return fmaxf(a, b); });
}

/// Like warp_reduce(), but over all threads in the block. `shared` must have room for kWarp values, and may be reused
/// immediately.
template <class T, class Combine>
__device__ T block_reduce(T value, T neutral, T* shared, const Combine& combine) {
  value = warp_reduce(value, combine);
  if (lane() == 0) shared[warp_in_block()] = value;
  __syncthreads();
  value = warp_reduce(lane() < warps_in_block() ? shared[lane()] : neutral, combine);
  __syncthreads();
  return value;
}
template <class T>
__device__ T block_sum(T value, T* shared) {
  return block_reduce(value, T(0), shared, [](T a, T b) { return a + b; });
}

}  // namespace mtl::cuda
