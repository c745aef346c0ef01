// Sums a tensor over its rows, for the gradients of biases and norm parameters. Each block sums some rows into its own
// row of fp32 partials. The partials are then added in a fixed order, so rounding depends only on the shape and,
// because the grid has as many blocks as the GPU runs at a time, on the GPU.
#pragma once

#include <array>

#include "kernels/cuda/any_array.h"
#include "kernels/cuda/rows.h"

namespace mtl::cuda {

/// The most blocks that write partials: 4 per multiprocessor of an H100. row_sums_work() reserves memory for them.
inline constexpr int kMostPartials = 132 * 4;

/// The most threads of a block. With sums in registers, few warps fit, and small blocks fill a multiprocessor better.
template <class Kind>
inline constexpr int kMostSumThreads = Kind::by_warp ? 128 : Kind::most_threads;

/// Returns a launch in which each team processes multiple rows of `width` elements and has `sums` columns to add up: in
/// registers or, if Kind::packs is 0, in shared memory. A block with multiple teams needs shared memory to add up
/// theirs. launch_sums() limits the number of blocks.
template <class Kind>
LaunchShape sums_shape(Kind kind, std::int64_t rows, std::int64_t width, std::int64_t sums) {
  LaunchShape shape = rows_shape(kind, rows, width, kMostSumThreads<Kind>);
  const bool has_array = Kind::packs == 0 || (Kind::by_warp && shape.threads > kWarp);
  if (has_array) shape.shared_bytes += static_cast<std::size_t>(sums) * sizeof(float);
  return shape;
}

/// Launches a kernel with sums_shape(), in as many blocks as the GPU runs at a time, and returns their number.
template <class... Parameters, class Operands>
int launch_sums(Stream& stream, void (*kernel)(Parameters...), LaunchShape grid, const Operands& operands) {
  const int resident = std::min(kMostPartials, resident_blocks(kernel, std::max(grid.threads, 1u), grid.shared_bytes));
  grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(resident));
  launch(stream, kernel, grid, operands);
  return static_cast<int>(grid.blocks.x);
}

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

/// Sums over rows of this thread's columns in `arrays` tensors of the same width. If Kind::packs is not 0, they are in
/// registers, otherwise in the block's shared memory. If `partials` is null, nothing is summed.
template <class Kind, int arrays>
class ColumnSums {
 public:
  static constexpr int n = Kind::n;

  __device__ ColumnSums(const Team<Kind>& team, float* partials, int width)
      : team_(team), partials_(partials), width_(width) {
    if constexpr (Kind::packs == 0) {
      if (partials == nullptr) return;
      for (int array = 0; array < arrays; ++array)
        team.over_row([&](int, int i, bool) { store(shared() + array * width + i, Pack<n>{}); });
    }
  }

  /// Adds to the columns of this thread's group k, which starts at column i.
  __device__ void add(int array, int k, int i, const Pack<n>& terms) {
    if constexpr (Kind::packs > 0) {
      for (int j = 0; j < n; ++j) held_[array][k][j] += terms[j];
    } else if (partials_ != nullptr) {
      float* at = shared() + array * width_ + i;
      Pack<n> sum = load<n>(at);
      for (int j = 0; j < n; ++j) sum[j] += terms[j];
      store(at, sum);
    }
  }

  /// A block's last step: adds up the sums of all teams in order, and writes the block's row in the partials.
  __device__ void write() const {
    if (partials_ == nullptr) return;
    if constexpr (Kind::packs == 0) return write_block_sums(partials_, shared(), 1, arrays * width_);
    float* out = partials_ + std::int64_t{blockIdx.x} * arrays * width_;
    for (int turn = 0; turn < team_.in_every_block(); ++turn) {
      if (turn > 0) __syncthreads();
      if (team_.in_block() != turn) continue;
      float* to = turn + 1 == team_.in_every_block() ? out : shared();
#pragma unroll
      for (int array = 0; array < arrays; ++array)
        team_.over_row([&](int k, int i, bool holds) {
          Pack<n> sum = held_[array][k];
          if (turn > 0) {
            const Pack<n> before = load<n>(shared() + array * width_ + i);
            for (int j = 0; j < n; ++j) sum[j] += before[j];
          }
          if (holds) store(to + array * width_ + i, sum);
        });
    }
  }

 private:
  __device__ float* shared() const { return shared_memory<float>() + kTeamSums; }

  const Team<Kind>& team_;
  float* partials_;
  int width_;
  Pack<n> held_[arrays][Kind::packs == 0 ? 1 : Kind::packs] = {};
};

/// Sums the `blocks` rows in `partials`, and writes the result to the first target (C) or adds it, as its mode says.
/// The other targets' columns are the next C in a row, and so on. A target may be absent, but not all. `partials` has a
/// row stride of `stride` floats. The summation order depends only on `blocks`.
void sum_partials(Stream& stream, const std::array<Grad, 3>& targets, const float* partials, int blocks, int stride);

}  // namespace mtl::cuda
