// Sums a tensor over its rows, for the gradients of biases and norm parameters. Each block sums some rows into its own
// row of fp32 partials. The partials are then added in a fixed order, so rounding depends only on the shape and,
// because the grid has as many blocks as the GPU runs at a time, on the GPU.
#pragma once

#include "kernels/cuda/any_array.h"
#include "kernels/cuda/rows.h"

namespace mtl::cuda {

/// The most blocks that write partials: 4 per multiprocessor of an H100. row_sums_work() reserves memory for them.
inline constexpr int kMostPartials = 132 * 4;

/// Returns the team size for rows whose sums are in registers: at most 4 packs per thread, up to 8192 columns.
inline int sums_team(std::int64_t width) { return team_size(width, 1024); }

/// Returns a launch in which each team processes multiple rows of `width` elements and has `sums` columns to add up.
/// `packs` is as in with_row_packs(). If it is 0, each team has the sums in shared memory. Otherwise they are in
/// registers, and a block with multiple teams needs shared memory to add them up. launch_sums() limits the number of
/// blocks.
inline RowsShape sums_shape(std::int64_t rows, std::int64_t width, std::int64_t sums, int packs) {
  // With sums in registers, few warps fit, and small blocks fill a multiprocessor better.
  const std::int64_t team = sums_team(width), threads = packs > 0 && team <= kWarp ? 128 : 256;
  const std::int64_t bytes = sums * static_cast<std::int64_t>(sizeof(float)),
                     in_warp = std::max<std::int64_t>(kWarp / team, 1);
  std::int64_t teams = threads / team;
  if (packs == 0) teams = std::clamp<std::int64_t>((48 << 10) / std::max<std::int64_t>(bytes, 1), 1, teams);
  teams = std::min(std::max(teams / in_warp, std::int64_t{1}) * in_warp, (rows + in_warp - 1) / in_warp * in_warp);
  const std::int64_t arrays = packs == 0 ? teams : teams > 1 ? 1 : 0;
  return {.team = static_cast<int>(team),
          .launch = {.blocks = static_cast<unsigned>(teams == 0 ? 0 : (rows + teams - 1) / teams),
                     .threads = static_cast<unsigned>(teams * team),
                     .shared_bytes = kTeamSums * sizeof(float) + static_cast<std::size_t>(arrays * bytes)}};
}

/// Launches a kernel with sums_shape(), in as many blocks as the GPU runs at a time, and returns their number.
template <class... Parameters, class Operands>
int launch_sums(Stream& stream, void (*kernel)(Parameters...), RowsShape shape, const Operands& operands) {
  LaunchShape& grid = shape.launch;
  const int resident = std::min(kMostPartials, resident_blocks(kernel, std::max(grid.threads, 1u), grid.shared_bytes));
  grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(resident));
  launch(stream, kernel, grid, operands, Team{shape.team});
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

/// Sums over rows of this thread's columns in `arrays` tensors of the same width. If `packs` is not 0, they are in
/// registers, otherwise in the team's shared memory. If `partials` is null, nothing is summed.
template <int n, int packs, int arrays>
class ColumnSums {
 public:
  __device__ ColumnSums(const Team& team, float* partials, int width)
      : team_(team), partials_(partials), width_(width) {
    if constexpr (packs == 0) {
      if (partials == nullptr) return;
      for (int array = 0; array < arrays; ++array)
        team.over_row<n>(width, [&](int i) { store(own(team.in_block()) + array * width + i, Pack<n>{}); });
    }
  }

  /// Adds to the columns of this thread's group k, which starts at column i.
  __device__ void add(int array, int k, int i, const Pack<n>& terms) {
    if constexpr (packs > 0) {
      for (int j = 0; j < n; ++j) held_[array][k][j] += terms[j];
    } else if (partials_ != nullptr) {
      float* at = own(team_.in_block()) + array * width_ + i;
      Pack<n> sum = load<n>(at);
      for (int j = 0; j < n; ++j) sum[j] += terms[j];
      store(at, sum);
    }
  }

  /// A block's last step: adds up the sums of all teams in order, and writes the block's row in the partials.
  __device__ void write() const {
    if (partials_ == nullptr) return;
    float* out = partials_ + std::int64_t{blockIdx.x} * arrays * width_;
    if constexpr (packs > 0) {
      for (int turn = 0; turn < team_.teams(); ++turn) {
        if (turn > 0) __syncthreads();
        if (team_.in_block() != turn) continue;
        float* to = turn + 1 == team_.teams() ? out : own(0);
#pragma unroll
        for (int array = 0; array < arrays; ++array)
          team_.over_row<n, packs>(width_, [&](int k, int i) {
            const Pack<n> before = turn == 0 ? Pack<n>{} : load<n>(own(0) + array * width_ + i);
            Pack<n> sum;
            for (int j = 0; j < n; ++j) sum[j] = before[j] + held_[array][k][j];
            store(to + array * width_ + i, sum);
          });
      }
    } else {
      write_block_sums(partials_, own(0), team_.teams(), arrays * width_);
    }
  }

 private:
  __device__ float* own(int team) const { return shared_memory<float>() + kTeamSums + team * arrays * width_; }

  const Team& team_;
  float* partials_;
  int width_;
  Pack<n> held_[arrays][packs == 0 ? 1 : packs] = {};
};

/// Sums the `blocks` rows in `partials`, and writes the result to the first target (C) or adds it, as its mode says.
/// The second target's columns are the next C in a row. A target may be absent. `partials` has a row stride of `stride`
/// floats. The summation order depends only on `blocks`.
void sum_partials(Stream& stream, const Grad& first, const Grad& second, const float* partials, int blocks, int stride);

inline void sum_partials(Stream& stream, const Grad& target, const float* partials, int blocks, int stride) {
  sum_partials(stream, target, {}, partials, blocks, stride);
}

}  // namespace mtl::cuda
