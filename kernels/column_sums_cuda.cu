// Adds up the partial sums that blocks wrote, for every kernel that sums over rows. Reads each partial once.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"

namespace mtl::cuda {

namespace {

/// Gradients to write or add to.
struct SumTargets {
  AnyArray out[2];
  bool accumulate[2];
};

/// One block per kWarp columns and target. Each warp adds some rows, and then the first warp adds up the warps' sums.
/// Loads kAhead rows before it adds them: waiting for one at a time would take longer than the additions.
__global__ void add_block_sums(SumTargets targets, const float* partials, int blocks, int width, int stride) {
  float* sums = shared_memory<float>();  // (warps, kWarp)
  const int column = block_in_grid() * kWarp + lane(), warps = warps_in_block(), target = static_cast<int>(blockIdx.y);
  constexpr int kAhead = 8;
  float sum = 0;
  if (column < width) {
    const float* from = partials + target * width + column;
    for (int first = warp_in_block(); first < blocks; first += kAhead * warps) {
      float ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int block = first + i * warps;
        ahead[i] = block < blocks ? from[std::int64_t{block} * stride] : 0;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += ahead[i];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  const AnyArray out = target == 0 ? targets.out[0] : targets.out[1];
  if (warp_in_block() > 0 || column >= width || out.data == nullptr) return;
  for (int warp = 1; warp < warps; ++warp) sum += sums[warp * kWarp + lane()];
  const bool accumulate = target == 0 ? targets.accumulate[0] : targets.accumulate[1];
  Pack<1> result = accumulate ? load<1>(out, column) : Pack<1>{};
  result[0] += sum;
  store(out, column, result);
}

}  // namespace

void sum_partials(Stream& stream, const Grad& first, const Grad& second, const float* partials, int blocks,
                  int stride) {
  constexpr unsigned kMostWarps = 16;
  const auto width = static_cast<int>((first.wanted() ? first : second).tensor.numel());
  const unsigned threads = std::clamp(static_cast<unsigned>(blocks), 1u, kMostWarps) * kWarp;
  const LaunchShape shape{.blocks = dim3((static_cast<unsigned>(width) + kWarp - 1) / kWarp, second.wanted() ? 2 : 1),
                          .threads = threads,
                          .shared_bytes = threads * sizeof(float)};
  const SumTargets targets{{AnyArray(first.tensor), AnyArray(second.tensor)},
                           {first.mode == GradMode::accumulate, second.mode == GradMode::accumulate}};
  launch(stream, add_block_sums, shape, targets, partials, blocks, width, stride);
}

}  // namespace mtl::cuda
