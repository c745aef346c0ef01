// Attention's backward on tensor cores: the operands, and the elementwise steps that a warp applies to score fragments.
// Registers hold fragments in the accumulator layout D that mma.h and wgmma share. With the dropout mask M (0 or
// dropout's scale) and delta = rowsum(dout * out):
//   P = exp(S - logsumexp), S = scale q k^T, dP = M * (dout v^T), dv = (M * P)^T dout
//   softmax backward: dS = P * (dP - delta), dq = scale dS k, dk = scale dS^T q
#pragma once

#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_softmax.h"

namespace mtl::cuda {

template <class T, class Shape>
struct TiledBackward : BackwardOperands<T, Shape> {
  TileOrder order;  // of the tiles of queries or of keys
  int parts;        // key_parts()
  float* partials;
  TiledBackward(const AttentionInput& in, const Qkv& grads, const Tensor& dout_rows, const Tensor& out_rows,
                const Tensor& logsumexp_rows, const BackwardWork& work, const TileOrder& tile_order)
      : BackwardOperands<T, Shape>(in, grads, dout_rows, out_rows, logsumexp_rows, work.delta),
        order(tile_order),
        parts(key_parts(in.sizes())),
        partials(work.partials) {}
};

/// A block's key tile, which starts at key `first`, and the heads of group g whose queries it sums over. Tiles that the
/// most queries see come first.
struct KeyTile {
  int b, g, first, first_head, end_head;
  template <class T, class Shape>
  __device__ KeyTile(const TiledBackward<T, Shape>& f, int size) {
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
template <int dim, class T, class Shape>
__device__ void store_partials(const TiledBackward<T, Shape>& f, int key, const Sums<dim / 8>& dk,
                               const Sums<dim / 8>& dv) {
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
template <int dim, class T, class Shape>
__device__ void sum_delta(DqRows& rows, const TiledBackward<T, Shape>& f, int size, int b, int head, int t) {
  const Shape& shape = f.shape;
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
template <int n, class Shape>
__device__ void differentiate(Sums<n>& scores, Sums<n>& dp, const DqRows& rows, const Shape& shape, int b, int head,
                              int row, int key) {
  if (Shape::kDrops && shape.dropout.active) drop(dp, shape, b, head, row, key);
  const float dropout_scale = Shape::kDrops ? shape.dropout.scale : 1;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores.v[j][i] *= dp.v[j][i] * dropout_scale - rows.delta[i / 2];
  }
}

/// Sets the keys that query `t` sees, as query i of a tile.
template <class Statistics, class Shape>
__device__ void see_query(Statistics& statistics, const Shape& shape, int i, int b, int t) {
  const bool exists = t < shape.queries;
  const KeyRange keys = shape.visible(b, exists ? t : shape.queries - 1);
  statistics.see(i, {exists ? keys.first : kNoKey, keys.end});
}

/// The queries [begin, end) that causality and the window allow to see at least one of the keys [key, key + count).
struct SeeingQueries {
  int begin, end;
  template <class Shape>
  __device__ SeeingQueries(const Shape& shape, int key, int count) : end(shape.queries) {
    const auto position = [&](int s) { return shape.key_position(s < shape.keys ? s : shape.keys - 1); };
    begin = shape.query_from(position(key));
    if (shape.window > 0) end = shape.query_from(position(key + count - 1) + shape.window);
  }
};

/// Lowers `queries.end` to just past the last query whose document starts at or before `last_key`. The whole block must
/// call this. `shared` is scratch memory for block_reduce().
template <class Shape>
__device__ void exclude_later_documents(SeeingQueries& queries, const Shape& shape, int b, int last_key, int* shared) {
  const int last_position = shape.key_position(last_key < shape.keys ? last_key : shape.keys - 1);
  int last = queries.begin;
  for (int t = queries.begin + thread_in_block(); t < queries.end; t += threads_in_block())
    if (shape.document_start[std::int64_t{b} * shape.queries + t] <= last_position) last = t;
  last = block_reduce(last, queries.begin, shared, [](int x, int y) { return x > y ? x : y; });
  queries.end = last + 1;
}

/// Returns the dropout mask for (16 keys, 32 queries) fragments. Bit 4 j + i is set if Sums::v[j][i] is kept. Masks are
/// defined for (queries, keys), so each lane draws the words for its untransposed fragment, and then the lanes exchange
/// words.
template <class Shape>
__device__ unsigned kept_elements(const Shape& shape, int b, int head, int query, int key) {
  const ProbabilityDropout& dropout = shape.dropout;
  const int g = lane() / 4, q = lane() % 4, is_upper = shape.key_position(key) % 32 != 0;
  unsigned kept = 0;
#pragma unroll
  for (int part = 0; part < 2; ++part) {  // 16 queries each
    const auto words = dropout.draw(b, head, row_tile_of(shape, query + 16 * part), column_tile_of(shape, key), lane());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t own = is_upper ? words[2 + i / 2] : words[i / 2];
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
template <int n, class Statistics>
__device__ void mask_transposed(Sums<n>& scores, const Statistics& statistics, int query, int key) {
  const int g = lane() / 4, q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * j + 2 * q + i % 2, s = key + g + 8 * (i / 2);
      const bool seen = (s < statistics.end_key(column, query)) & (statistics.first_key[column] <= s);
      scores.v[j][i] = seen ? scores.v[j][i] : -INFINITY;
    }
  }
}

/// Turns transposed scores into P^T, before dropout. The statistics have logsumexp times `unit`.
template <int n>
__device__ void write_probabilities_transposed(Sums<n>& scores, const QueryStatistics<8 * n>& statistics,
                                               float scale_log2, float unit) {
  const int q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float logsumexp = statistics.logsumexp[8 * j + 2 * q + i % 2];  // in pairs, registers would spill
      scores.v[j][i] = exp2_approx(scores.v[j][i] * scale_log2 - logsumexp * (kLog2E / unit));
    }
  }
}

/// Negates dropped probabilities to mark them, and zeroes dP there.
template <int n, class Shape>
__device__ void drop_transposed(Sums<n>& probabilities, Sums<n>& dp, const Shape& shape, int b, int head, int query,
                                int key) {
  static_assert(n <= 8, "a bit for each element");
  unsigned kept = 0;
#pragma unroll 1  // registers are scarce
  for (int part = 0; part < n / 4; ++part) kept |= kept_elements(shape, b, head, query + 32 * part, key) << (16 * part);
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
template <int n, class Shape>
__device__ void differentiate_transposed(Sums<n>& probabilities, Sums<n>& dp, const QueryStatistics<8 * n>& statistics,
                                         const Shape& shape) {
  const int q = lane() % 4;
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float &p = probabilities.v[j][i], &dscore = dp.v[j][i];
      const float delta = statistics.delta[8 * j + 2 * q + i % 2];
      if constexpr (Shape::kDrops) {
        dscore = fabsf(p) * (dscore * shape.dropout.scale - delta);
        p = fmaxf(p, 0) * shape.dropout.scale;
      } else {
        dscore = p * (dscore - delta);
      }
    }
  }
}

}  // namespace mtl::cuda
