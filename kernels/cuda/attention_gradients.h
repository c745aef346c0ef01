// Attention's backward on tensor cores: the operands, and the elementwise steps that a warp applies to score fragments.
// Registers hold fragments in the accumulator layout D that mma.h and wgmma share. With the dropout mask M (0 or
// dropout's scale) and delta = rowsum(dout * out):
//   P = exp(S - logsumexp), S = scale q k^T, dP = M * (dout v^T), dv = (M * P)^T dout
//   softmax backward: dS = P * (dP - delta), dq = scale dS k, dk = scale dS^T q
#pragma once

#include <climits>

#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_softmax.h"

namespace mtl::cuda {

template <class T>
struct TiledBackward : BackwardOperands<T> {
  TileOrder order;  // of the tiles of queries or of keys
  int parts;        // key_parts()
  float* partials;
  TiledBackward(const AttentionInput& in, const Qkv& grads, const Tensor& dout_rows, const Tensor& out_rows,
                const Tensor& logsumexp_rows, const BackwardWork& work, const TileOrder& tile_order)
      : BackwardOperands<T>(in, grads, dout_rows, out_rows, logsumexp_rows, work.delta),
        order(tile_order),
        parts(key_parts(in.sizes())),
        partials(work.partials) {}
};

/// A block's key tile, which starts at key `first`, and the heads of group g whose queries it sums over. Tiles that the
/// most queries see come first.
struct KeyTile {
  int b, g, first, first_head, end_head;
  template <class T>
  __device__ KeyTile(const TiledBackward<T>& f, int size) {
    const AttentionShape& shape = f.shape;
    const TileOrder::Place place = f.order.at(block_in_grid());
    const int group = place.head / f.parts, part = place.head % f.parts;
    b = group / shape.groups;
    g = group % shape.groups;
    first = place.tile * size;
    first_head = shape.heads * part / f.parts;
    end_head = shape.heads * (part + 1) / f.parts;
  }
};

/// Writes the block's dk (16, dim) and dv of the keys from `key` on to its part's partial sums.
template <int dim, class T>
__device__ void store_partials(const TiledBackward<T>& f, int key, const Sums<dim / 8>& dk, const Sums<dim / 8>& dv) {
  const int size = f.shape.dim;
  const std::int64_t first_row = std::int64_t{f.order.at(block_in_grid()).head} * f.shape.keys;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const int s = key + lane() / 4 + 4 * i;
    if (s >= f.shape.keys) continue;
    float* row = f.partials + (first_row + s) * 2 * size;
#pragma unroll
    for (int j = 0; j < dim / 8; ++j) {
      const int column = 8 * j + lane() % 4 * 2;
      if (8 * j >= size) continue;
      store(row + column, Pack<2>{{dk.v[j][i], dk.v[j][i + 1]}});
      store(row + size + column, Pack<2>{{dv.v[j][i], dv.v[j][i + 1]}});
    }
  }
}

/// Statistics and visible keys for a lane's query rows g and g + 8.
struct DqRows {
  float logsumexp_log2[2], delta[2];
  KeyRange seen[2];
};

/// Writes delta for the 16 queries starting at `t`, with two lanes per query, and sets `rows`. Heads have `size`
/// elements, at most dim.
template <int dim, class T>
__device__ void sum_delta(DqRows& rows, const TiledBackward<T>& f, int size, int b, int head, int t) {
  const AttentionShape& shape = f.shape;
  const int query = t + lane() / 2, half = lane() % 2 * (dim / 2);
  const int clamped = query < shape.queries ? query : shape.queries - 1;
  const T* out = f.out.at(b, head / shape.heads, head % shape.heads, clamped);
  const T* dout = f.dout.at(b, head / shape.heads, head % shape.heads, clamped);
  float sum = 0;
#pragma unroll
  for (int d = 0; d < dim / 2; d += 8) {
    const bool exists = half + d < size;
    const int column = exists ? half + d : 0;  // without branches, all loads are in flight together
    const Pack<8> x = load<8>(out + column), y = load<8>(dout + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x[i] * (exists ? y[i] : 0);
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  const std::int64_t first = (std::int64_t{b} * shape.groups * shape.heads + head) * shape.queries;
  if (lane() % 2 == 0 && query < shape.queries) f.delta[first + query] = sum;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane() / 4 + 8 * i, own = t + row < shape.queries ? t + row : shape.queries - 1;
    rows.delta[i] = __shfl_sync(kAllLanes, sum, 2 * row);
    rows.logsumexp_log2[i] = f.logsumexp[first + own] * kLog2E;
    rows.seen[i] = shape.visible(b, own);
  }
}

/// Turns scores for 16 queries into P, before dropout. `key` is the first column's key.
template <int n>
__device__ void write_probabilities(Sums<n>& scores, const DqRows& rows, float scale_log2, int key, bool masked) {
  if (masked) mask_scores(scores, rows.seen, key);
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores.v[j][i] = exp2_approx(scores.v[j][i] * scale_log2 - rows.logsumexp_log2[i / 2]);
  }
}

/// softmax backward: overwrites P with dS = P * (dP - delta). `dp` is dout v^T, for queries starting at `row` and keys
/// starting at `key`. Dropout zeroes elements of `dp`.
template <int n>
__device__ void differentiate(Sums<n>& scores, Sums<n>& dp, const DqRows& rows, const ProbabilityDropout& dropout,
                              int b, int head, int row, int key) {
  if (dropout.active) drop(dp, dropout, b, head, row, key);
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores.v[j][i] *= dp.v[j][i] * dropout.scale - rows.delta[i / 2];
  }
}

/// Statistics for a tile of queries.
template <int count>
struct QueryStatistics {
  float logsumexp[count], delta[count];
  int first_key[count];  // that the query sees; kNoKey for a query past the end
};
inline constexpr int kNoKey = INT_MAX;

/// The queries [begin, end) that causality and the window allow to see at least one of the keys [key, key + count).
struct SeeingQueries {
  int begin, end;
  __device__ SeeingQueries(const AttentionShape& shape, int key, int count) : begin(key), end(shape.queries) {
    const int last = key + count - 1;
    if (shape.window > 0 && shape.window < end - last) end = last + static_cast<int>(shape.window);
  }
};

/// Lowers `queries.end` to just past the last query whose document starts at or before `last_key`. The whole block must
/// call this. `shared` is scratch memory for block_reduce().
__device__ inline void exclude_later_documents(SeeingQueries& queries, const AttentionShape& shape, int b, int last_key,
                                               int* shared) {
  int last = queries.begin;
  for (int t = queries.begin + thread_in_block(); t < queries.end; t += threads_in_block())
    if (shape.document_start[std::int64_t{b} * shape.queries + t] <= last_key) last = t;
  last = block_reduce(last, queries.begin, shared, [](int x, int y) { return x > y ? x : y; });
  queries.end = last + 1;
}

/// Returns the dropout mask for (16 keys, 32 queries) fragments. Bit 4 j + i is set if Sums::v[j][i] is kept. Masks are
/// defined for (queries, keys), so each lane draws the words for its untransposed fragment, and then the lanes exchange
/// words.
__device__ inline unsigned kept_elements(const ProbabilityDropout& dropout, int b, int head, int query, int key) {
  const int g = lane() / 4, q = lane() % 4;
  unsigned kept = 0;
#pragma unroll
  for (int part = 0; part < 2; ++part) {  // 16 queries each
    const auto words = dropout.draw(b, head, query / 16 + part, key / 32, lane());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t own = key % 32 == 0 ? words[i / 2] : words[2 + i / 2];
      const std::uint32_t word = __shfl_sync(kAllLanes, own, 4 * (2 * q + i % 2) + g / 2);
#pragma unroll
      for (int upper = 0; upper < 2; ++upper)
        if ((word >> (8 * (2 * upper + g % 2)) & 255) >= dropout.threshold) kept |= 1u << (4 * (2 * part + upper) + i);
    }
  }
  return kept;
}

/// Sets transposed scores (keys, queries) to -inf where the query does not see the key. The tile starts at `query` and
/// `key`. Selects without branches: with && instead of &, the compiler makes one per element.
template <int n>
__device__ void mask_transposed(Sums<n>& scores, const QueryStatistics<8 * n>& statistics, int query, int key) {
  const int g = lane() / 4, q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * j + 2 * q + i % 2, t = query + column, s = key + g + 8 * (i / 2);
      const bool seen = (s <= t) & (statistics.first_key[column] <= s);
      scores.v[j][i] = seen ? scores.v[j][i] : -INFINITY;
    }
  }
}

/// Turns transposed scores into P^T, before dropout.
template <int n>
__device__ void write_probabilities_transposed(Sums<n>& scores, const QueryStatistics<8 * n>& statistics,
                                               float scale_log2) {
  const int q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores.v[j][i] = exp2_approx(scores.v[j][i] * scale_log2 - statistics.logsumexp[8 * j + 2 * q + i % 2] * kLog2E);
  }
}

/// Negates dropped probabilities to mark them, and zeroes dP there.
template <int n>
__device__ void drop_transposed(Sums<n>& probabilities, Sums<n>& dp, const ProbabilityDropout& dropout, int b, int head,
                                int query, int key) {
  static_assert(n <= 8, "a bit for each element");
  unsigned kept = 0;
#pragma unroll 1  // registers are scarce
  for (int part = 0; part < n / 4; ++part)
    kept |= kept_elements(dropout, b, head, query + 32 * part, key) << (16 * part);
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((kept >> (4 * j + i) & 1) != 0) continue;
      probabilities.v[j][i] *= -1;
      dp.v[j][i] = 0;
    }
  }
}

/// softmax backward, transposed. Replaces P, as marked by drop_transposed(), with M * P. Replaces dP with dS = P * (dP
/// - delta).
template <int n>
__device__ void differentiate_transposed(Sums<n>& probabilities, Sums<n>& dp, const QueryStatistics<8 * n>& statistics,
                                         float dropout_scale) {
  const int q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float &p = probabilities.v[j][i], &dscore = dp.v[j][i];
      dscore = fabsf(p) * (dscore * dropout_scale - statistics.delta[8 * j + 2 * q + i % 2]);
      p = fmaxf(p, 0) * dropout_scale;
    }
  }
}

}  // namespace mtl::cuda
