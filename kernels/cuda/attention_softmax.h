// The online softmax (Dao 2023) in registers, for attention's forward on tensor cores. For each key tile, with row
// maximum m and row sum l:
//   m' = max(m, rowmax(S)), P = exp(S - m'), l' = exp(m - m') l + rowsum(P), out' = exp(m - m') out + P v
// A warp has 16 queries. Registers hold scores in the accumulator layout D that mma.h and wgmma share, so each lane
// holds elements from two rows: g and g + 8.
#pragma once

#include <cmath>

#include "kernels/cuda/attention_tiles.h"

namespace mtl::cuda {

/// One factor for each of a lane's two rows.
struct RowFactors {
  float of[2];
};

/// Sets scores to -inf for keys that the row does not see. `key` is the first column's key.
template <int n>
__device__ void mask_scores(Sums<n>& scores, const KeyRange (&seen)[2], int key) {
  const int column = key + lane() % 4 * 2;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int s = column + 8 * j + i % 2;
      if (s < seen[i / 2].first || s >= seen[i / 2].end) scores.v[j][i] = -INFINITY;
    }
  }
}

/// Return which of dropout's tiles (16 queries, 32 keys) contain a query and a key.
template <class Shape>
__device__ int row_tile_of(const Shape& shape, int query) {
  return static_cast<int>(static_cast<unsigned>(shape.position(query)) / 16);
}
template <class Shape>
__device__ int column_tile_of(const Shape& shape, int key) {
  return static_cast<int>(static_cast<unsigned>(shape.key_position(key)) / 32);
}

/// Zeroes dropped probabilities. The tile starts at query `row` and key `column`.
template <int n, class Shape>
__device__ void drop(Sums<n>& scores, const Shape& shape, int b, int head, int row, int column) {
  const ProbabilityDropout& dropout = shape.dropout;
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const auto words = dropout.draw(b, head, row_tile_of(shape, row), column_tile_of(shape, column + 8 * j), lane());
#pragma unroll
    for (int w = 0; w < 4; ++w) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if ((words[w] >> (8 * i) & 255) < dropout.threshold) scores.v[j + w][i] = 0;
    }
  }
}

/// sums *= factors, row by row.
template <int n>
__device__ void scale_rows(Sums<n>& sums, const RowFactors& factors) {
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.v[j][i] *= factors.of[i / 2];
  }
}

/// Online softmax state for a lane's two rows.
struct SoftmaxRows {
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // `sum`: this lane's columns only
  KeyRange seen[2];

  /// Sets the keys that the warp's queries [t, t + 16) see in sequence `b`.
  template <class Shape>
  __device__ void see(const Shape& shape, int b, int t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = t + lane() / 4 + 8 * half;
      seen[half] = shape.visible(b, query < shape.queries ? query : shape.queries - 1);
    }
  }
  /// Updates max and turns scores into exp(scale (score - max)). Returns exp(scale (old max - max)). The caller must
  /// multiply all earlier sums by these factors.
  template <int n>
  __device__ RowFactors exponentiate(Sums<n>& scores, float scale_log2) {
    RowFactors factors;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max[half];
#pragma unroll
      for (int j = 0; j < n; ++j) new_max = fmaxf(new_max, fmaxf(scores.v[j][2 * half], scores.v[j][2 * half + 1]));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 2));
      const float base = new_max == -INFINITY ? 0 : new_max * scale_log2;  // nothing seen yet
      const float factor = exp2_approx(max[half] * scale_log2 - base);
      max[half] = new_max;
      float total = sum[half] * factor;
#pragma unroll
      for (int j = 0; j < n; ++j) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores.v[j][i] = exp2_approx(scores.v[j][i] * scale_log2 - base);
          total += scores.v[j][i];
        }
      }
      sum[half] = total;
      factors.of[half] = factor;
    }
    return factors;
  }
  /// Writes logsumexp for the queries starting at `t`, unless `logsumexp` is null. Returns the factors that turn sums
  /// into outputs: dropout's scale / sum, or 0 for a query that sees no key.
  __device__ RowFactors finish(const AttentionShape& shape, float* logsumexp, int t) const {
    RowFactors factors;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[half];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      factors.of[half] = total > 0 ? shape.dropout.scale / total : 0;
      const int query = t + lane() / 4 + 8 * half;
      if (logsumexp != nullptr && lane() % 4 == 0 && query < shape.queries)
        logsumexp[query] = max[half] * shape.scale + logf(total);
    }
    return factors;
  }
};

}  // namespace mtl::cuda
