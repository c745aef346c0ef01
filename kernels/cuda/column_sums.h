// Sums over the rows of a tensor, for gradients of biases and of a norm's parameters: each block sums some rows into a
// row of fp32 of its own, and these rows are added in order. So the result depends on the shape alone.
#pragma once

#include <algorithm>

#include "device/tensor.h"
#include "kernels/cuda/pack.h"

namespace mtl::cuda {

/// How many blocks share the rows, and how many warps of a block take one row after another: as many as there is shared
/// memory for `sums` numbers of fp32 each.
struct RowSumShape {
  unsigned blocks, warps;
  std::size_t shared_bytes;
  RowSumShape(std::int64_t rows, std::int64_t sums) {
    constexpr std::int64_t kMostBlocks = 264, kShared = 96 << 10;  // two blocks for each multiprocessor of an H100
    const std::int64_t bytes = sums * static_cast<std::int64_t>(sizeof(float));
    warps = static_cast<unsigned>(std::clamp<std::int64_t>(kShared / std::max<std::int64_t>(bytes, 1), 1, 8));
    blocks = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, (rows + warps - 1) / warps));
    shared_bytes = static_cast<std::size_t>(warps * bytes);
  }
};

/// Bytes of the blocks' rows.
inline std::size_t row_sums_bytes(std::int64_t rows, std::int64_t sums) {
  return std::size_t{RowSumShape(rows, sums).blocks} * static_cast<std::size_t>(sums) * sizeof(float);
}

/// The last step of a block: adds the sums (warps, count) of its warps, in shared memory, into its row of `partials`.
__device__ inline void write_block_sums(float* partials, const float* shared, int count) {
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x / kWarp);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    float sum = shared[i];
    for (int warp = 1; warp < warps; ++warp) sum += shared[warp * count + i];
    partials[std::int64_t{blockIdx.x} * count + i] = sum;
  }
}

template <class G>
__global__ void add_block_sums(G* out, bool accumulate, const float* partials, int blocks, int width, int stride) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= width) return;
  float sum = accumulate ? to_float(out[column]) : 0;
  for (int block = 0; block < blocks; ++block) sum += partials[std::int64_t{block} * stride + column];
  out[column] = from_float<G>(sum);
}

/// target (C) = or += the rows of partials, `blocks` of them and `stride` numbers apart, added in order.
inline void sum_partials(Stream& stream, const Grad& target, const float* partials, int blocks, int stride) {
  const auto width = static_cast<int>(target.tensor.numel());
  constexpr unsigned kThreads = 128;
  with_float_type(target.tensor.dtype(), [&]<class G>(G) {
    launch(stream, add_block_sums<G>, {(static_cast<unsigned>(width) + kThreads - 1) / kThreads, kThreads},
           target.tensor.data<G>(), target.mode == GradMode::accumulate, partials, blocks, width, stride);
  });
}

/// target (C) = or += columns [offset, offset + C) of the blocks' rows, which are `sums` wide.
inline void sum_blocks(Stream& stream, const Grad& target, const Tensor& partials, std::int64_t rows, std::int64_t sums,
                       std::int64_t offset) {
  sum_partials(stream, target, static_cast<const float*>(partials.raw()) + offset,
               static_cast<int>(RowSumShape(rows, sums).blocks), static_cast<int>(sums));
}

}  // namespace mtl::cuda
