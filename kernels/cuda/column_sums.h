// Sums a tensor over its rows, for the gradients of biases and norm parameters. Each block sums some rows into its own
// row of fp32 partials. The partials are then added in a fixed order, so rounding depends only on the shape.
#pragma once

#include <algorithm>

#include "device/tensor.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

/// A block's last step: adds up `arrays` consecutive arrays of `count` sums in shared memory, and writes the block's
/// row in `partials`.
__device__ inline void write_block_sums(float* partials, const float* shared, int arrays, int count) {
  __syncthreads();
  for (int i = thread_in_block(); i < count; i += threads_in_block()) {
    float sum = shared[i];
    for (int array = 1; array < arrays; ++array) sum += shared[array * count + i];
    partials[std::int64_t{blockIdx.x} * count + i] = sum;
  }
}

/// One block per kWarp columns. Each warp adds some rows, and then the first warp adds up the warps' sums. Loads
/// kAhead rows before it adds them: waiting for one at a time would take longer than the additions.
template <class G>
__global__ void add_block_sums(G* out, bool accumulate, const float* partials, int blocks, int width, int stride) {
  float* sums = shared_memory<float>();  // (warps, kWarp)
  const int column = block_in_grid() * kWarp + lane(), warps = warps_in_block();
  constexpr int kAhead = 8;
  float sum = 0;
  if (column < width) {
    for (int first = warp_in_block(); first < blocks; first += kAhead * warps) {
      float ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int block = first + i * warps;
        ahead[i] = block < blocks ? partials[std::int64_t{block} * stride + column] : 0;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += ahead[i];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_in_block() > 0 || column >= width) return;
  for (int warp = 1; warp < warps; ++warp) sum += sums[warp * kWarp + lane()];
  out[column] = from_float<G>((accumulate ? to_float(out[column]) : 0) + sum);
}

/// Sums the `blocks` rows in `partials`, and writes the result to target (C) or adds it, as target.mode says.
/// `partials` has a row stride of `stride` floats. The summation order depends only on `blocks`.
inline void sum_partials(Stream& stream, const Grad& target, const float* partials, int blocks, int stride) {
  constexpr unsigned kMostWarps = 16;
  const auto width = static_cast<int>(target.tensor.numel());
  const unsigned threads = std::clamp(static_cast<unsigned>(blocks), 1u, kMostWarps) * kWarp;
  const LaunchShape shape{.blocks = (static_cast<unsigned>(width) + kWarp - 1) / kWarp,
                          .threads = threads,
                          .shared_bytes = threads * sizeof(float)};
  with_float_type(target.tensor.dtype(), [&]<class G>(G) {
    launch(stream, add_block_sums<G>, shape, target.tensor.data<G>(), target.mode == GradMode::accumulate, partials,
           blocks, width, stride);
  });
}

}  // namespace mtl::cuda
