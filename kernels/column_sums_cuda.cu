// Adds up the partial sums that blocks wrote, for every kernel that sums over rows. Reads each partial once.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"

namespace mtl::cuda {

namespace {

/// Gradients to write or add to.
struct SumTargets {
  AnyArray out[3];
  bool accumulate[3];
};

/// One block per kWarp columns and target. Each warp adds some rows, and then the first warp adds up the warps' sums.
/// Loads kAhead rows before it adds them: waiting for one at a time would take longer than the additions.
__global__ void add_block_sums(const __grid_constant__ SumTargets targets, const float* partials, int blocks, int width,
                               int stride) {
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
  const AnyArray out = targets.out[target];
  if (warp_in_block() > 0 || column >= width || out.data == nullptr) return;
  for (int warp = 1; warp < warps; ++warp) sum += sums[warp * kWarp + lane()];
  Pack<1> result = targets.accumulate[target] ? load<1>(out, column) : Pack<1>{};
  result[0] += sum;
  store(out, column, result);
}

}  // namespace

void sum_partials(Stream& stream, const std::array<Grad, 3>& targets, const float* partials, int blocks, int stride) {
  constexpr unsigned kMostWarps = 16;
  SumTargets to;
  unsigned number = 0, width = 0;
  for (unsigned i = 0; i < targets.size(); ++i) {
    to.out[i] = AnyArray(targets[i].tensor);
    to.accumulate[i] = targets[i].mode == GradMode::accumulate;
    if (!targets[i].wanted()) continue;
    number = i + 1;
    width = static_cast<unsigned>(targets[i].tensor.numel());
  }
  const unsigned threads = std::clamp(static_cast<unsigned>(blocks), 1u, kMostWarps) * kWarp;
  const LaunchShape shape{
      .blocks = dim3((width + kWarp - 1) / kWarp, number), .threads = threads, .shared_bytes = threads * sizeof(float)};
  launch(stream, add_block_sums, shape, to, partials, blocks, static_cast<int>(width), stride);
}

}  // namespace mtl::cuda
