// Sums over the rows of a tensor, for gradients of biases and of a norm's parameters: each block sums some rows into a
// row of fp32 of its own, and these rows are added in a fixed order. So the result depends on the shape alone.
#pragma once

#include <algorithm>

#include "device/tensor.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

/// The number of blocks that share the rows, and of warps in a block, which take one row after another: as many as
/// there is shared memory for `sums` numbers of fp32 each.
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

/// The last step of a block: adds `arrays` of `count` sums, one after another in shared memory, into its row of
/// `partials`.
__device__ inline void write_block_sums(float* partials, const float* shared, int arrays, int count) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    float sum = shared[i];
    for (int array = 1; array < arrays; ++array) sum += shared[array * count + i];
    partials[std::int64_t{blockIdx.x} * count + i] = sum;
  }
}

/// The same for an array of each warp.
__device__ inline void write_block_sums(float* partials, const float* shared, int count) {
  write_block_sums(partials, shared, static_cast<int>(blockDim.x / kWarp), count);
}

/// A block for kWarp columns: each warp adds some of the rows, the first adds the warps' sums.
template <class G>
__global__ void add_block_sums(G* out, bool accumulate, const float* partials, int blocks, int width, int stride) {
  float* sums = shared_memory<float>();  // (warps, kWarp)
  const int column = static_cast<int>(blockIdx.x * kWarp + lane()), warps = static_cast<int>(blockDim.x / kWarp);
  float sum = 0;
  if (column < width) {
    for (int block = static_cast<int>(warp_in_block()); block < blocks; block += warps)
      sum += partials[std::int64_t{block} * stride + column];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_in_block() > 0 || column >= width) return;
  for (int warp = 1; warp < warps; ++warp) sum += sums[warp * static_cast<int>(kWarp) + static_cast<int>(lane())];
  out[column] = from_float<G>((accumulate ? to_float(out[column]) : 0) + sum);
}

/// target (C) = or += the rows of partials, `blocks` of them and `stride` numbers apart, added in an order that follows
/// from their number.
inline void sum_partials(Stream& stream, const Grad& target, const float* partials, int blocks, int stride) {
  constexpr unsigned kMostWarps = 16;
  const auto width = static_cast<int>(target.tensor.numel());
  const unsigned threads = std::clamp(static_cast<unsigned>(blocks), 1u, kMostWarps) * kWarp;
  const LaunchShape shape{(static_cast<unsigned>(width) + kWarp - 1) / kWarp, threads, threads * sizeof(float)};
  with_float_type(target.tensor.dtype(), [&]<class G>(G) {
    launch(stream, add_block_sums<G>, shape, target.tensor.data<G>(), target.mode == GradMode::accumulate, partials,
           blocks, width, stride);
  });
}

/// target (C) = or += columns [offset, offset + C) of the blocks' rows, which are `sums` wide.
inline void sum_blocks(Stream& stream, const Grad& target, const Tensor& partials, std::int64_t rows, std::int64_t sums,
                       std::int64_t offset) {
  sum_partials(stream, target, static_cast<const float*>(partials.raw()) + offset,
               static_cast<int>(RowSumShape(rows, sums).blocks), static_cast<int>(sums));
}

}  // namespace mtl::cuda
