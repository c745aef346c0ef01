// Grid-stride kernels over flat ranges: each thread computes elements, or packs of them, one grid apart.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.h"

namespace mtl::cuda {

/// Return the number of this thread in the grid, and the number of all threads of the grid.
__device__ inline std::int64_t first_element() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

/// Returns a shape with one thread per element or pack, at most as many as fill a GPU.
inline LaunchShape flat_shape(std::int64_t count) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 132 * 8;  // eight for each multiprocessor of an H100
  return {static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads)), kThreads};
}

}  // namespace mtl::cuda
