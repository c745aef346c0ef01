// Grid-stride kernels over flat ranges: each thread computes elements, or packs of elements, at a stride of one grid.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.h"

namespace mtl::cuda {

/// Return the index of this thread in the grid, and the number of threads in the grid.
__device__ inline std::int64_t first_element() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

/// Returns a launch with one thread per element or pack, but at most as many threads as fill a GPU.
inline LaunchShape flat_shape(std::int64_t count) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 132 * 8;  // eight for each multiprocessor of an H100
  return {static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads)), kThreads};
}

}  // namespace mtl::cuda
