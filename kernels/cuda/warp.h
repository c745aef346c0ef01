// The columns of a row shared among a warp; sums and maxima over the threads of a warp or a block, in an order that
// does not change.
#pragma once

#include "kernels/cuda/platform.h"

namespace mtl::cuda {

__device__ inline unsigned lane() { return threadIdx.x % kWarp; }
__device__ inline unsigned warp_in_block() { return threadIdx.x / kWarp; }

/// body(i) for each n elements of a row that this lane of a warp takes: i, i + 1, ...
template <int n, class Body>
__device__ void over_row(int width, const Body& body) {
  for (int i = static_cast<int>(lane()) * n; i < width; i += static_cast<int>(kWarp) * n) body(i);
}

/// combine(a, b) over all lanes of the warp; each of them receives the result. combine() must not depend on the order
/// of its arguments: lanes pass them in both.
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

/// The same over all threads of the block; `shared` has room for kWarp numbers and is free again when this returns.
template <class T, class Combine>
__device__ T block_reduce(T value, T neutral, T* shared, const Combine& combine) {
  value = warp_reduce(value, combine);
  if (lane() == 0) shared[warp_in_block()] = value;
  __syncthreads();
  value = warp_reduce(lane() < blockDim.x / kWarp ? shared[lane()] : neutral, combine);
  __syncthreads();
  return value;
}
template <class T>
__device__ T block_sum(T value, T* shared) {
  return block_reduce(value, T(0), shared, [](T a, T b) { return a + b; });
}

}  // namespace mtl::cuda
