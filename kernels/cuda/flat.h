// Grid-stride kernels over flat ranges. Each thread processes elements, or packs of elements, one grid apart.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.h"

namespace mtl::cuda {

/// Return this thread's index in the grid, and the number of threads in the grid.
__device__ inline std::int64_t first_element() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

/// Returns a launch with one thread per element or pack, limited to the threads that fill a GPU.
inline LaunchShape flat_shape(std::int64_t count) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 132 * 8;  // 8 per H100 multiprocessor
  return {static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads)), kThreads};
}

}  // namespace mtl::cuda
