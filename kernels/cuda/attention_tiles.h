// Attention on tensor cores (Dao 2023): (rows, D) tiles in shared memory, and the matmuls that a warp computes with
// them. D is a tile's number of columns, at least the head size. Rows are padded by 8 elements. If D is a multiple of
// 16, the 8 rows that ldmatrix reads at the same time are then in different banks.
#pragma once

#include <climits>
#include <type_traits>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/tile_order.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

/// The statistics and visible keys of a tile of queries.
template <int count>
struct QueryStatistics {
  float logsumexp[count], delta[count];
  int first_key[count];  // that the query sees; kNoKey for a query past the end

  __device__ void see(int i, KeyRange keys) { first_key[i] = keys.first; }
  /// Returns the end of the keys that query i sees, in a tile that starts at `query`. It ascends with i.
  __device__ int end_key(int i, int query) const { return query + i + 1; }
};
inline constexpr int kNoKey = INT_MAX;
/// For parts of sequences, where the end is more work than a sum.
template <int count>
struct PartStatistics : QueryStatistics<count> {
  int end[count];

  __device__ void see(int i, KeyRange keys) {
    this->first_key[i] = keys.first;
    end[i] = keys.end;
  }
  __device__ int end_key(int i, int) const { return end[i]; }
};

/// The shape of a call, for which kernels on tensor cores are compiled: whole sequences do not pay for parts of them,
/// nor calls without dropout for dropout. Kernels with `drops` check whether it is active.
template <bool any_positions, bool drops>
struct TiledShape : std::conditional_t<any_positions, AttentionShape, UndividedShape> {
  using Base = std::conditional_t<any_positions, AttentionShape, UndividedShape>;
  using Base::Base;
  static constexpr bool kDrops = drops;
  template <int count>
  using Statistics = std::conditional_t<any_positions, PartStatistics<count>, QueryStatistics<count>>;
};
/// Calls body(std::type_identity<TiledShape<...>>()) with the shape for this call.
template <class Body>
void with_tiled_shape(const AttentionInput& in, const Body& body) {
  if (!in.rows.part.is_whole() || !in.key_part.is_whole() || in.past.exists())
    body(std::type_identity<TiledShape<true, true>>());
  else if (in.dropout.active())
    body(std::type_identity<TiledShape<false, true>>());
  else
    body(std::type_identity<TiledShape<false, false>>());
}

/// A tile's row stride, in elements.
template <int dim>
inline constexpr int kTileRow = dim + 8;

/// Starts copying rows [begin, begin + rows) of `from` into a tile. Rows outside `inside`, and columns that `from` does
/// not have, become zeros. The whole block must call this.
template <int rows, int dim, class T>
__device__ void load_tile(T* tile, const RowsOfHead<T>& from, int begin, KeyRange inside) {
  constexpr int kPieces = dim / 8;
#pragma unroll 1  // for sm_100, nvcc would unroll this and spill registers
  for (int i = thread_in_block(); i < rows * kPieces; i += threads_in_block()) {
    const int row = i / kPieces, d = i % kPieces * 8, position = begin + row;
    const bool is_inside = position >= inside.first && position < inside.end && d < from.dim;
    cp_async_16(tile + row * kTileRow<dim> + d, from.first + (is_inside ? position * from.stride : 0) + d, is_inside);
  }
}

/// Loads A (16, 16) from a tile: rows [row, row + 16) and columns [column, column + 16).
template <int dim, class T>
__device__ void load_a(std::uint32_t (&a)[4], const T* tile, int row, int column) {
  const int i = lane() / 8, r = lane() % 8;
  ldmatrix_x4(a, tile + (row + i % 2 * 8 + r) * kTileRow<dim> + column + i / 2 * 8);
}
/// Loads B (16, 16) as two fragments: b[0], b[1] and b[2], b[3]. The columns of B are the tile's rows [row, row + 16).
template <int dim, class T>
__device__ void load_b_of_rows(std::uint32_t (&b)[4], const T* tile, int row, int column) {
  const int i = lane() / 8, r = lane() % 8;
  ldmatrix_x4(b, tile + (row + i / 2 * 8 + r) * kTileRow<dim> + column + i % 2 * 8);
}
/// Loads B (16, 16) as two fragments, not transposed: the rows of B are rows of the tile.
template <int dim, class T>
__device__ void load_b(std::uint32_t (&b)[4], const T* tile, int row, int column) {
  const int i = lane() / 8, r = lane() % 8;
  ldmatrix_x4_trans(b, tile + (row + i % 2 * 8 + r) * kTileRow<dim> + column + i / 2 * 8);
}

/// A warp's (16, 8 n) accumulator: n fragments of D.
template <int n>
struct Sums {
  float v[n][4] = {};
};

/// sums (16, 8 n) += a[row : row + 16] b[0 : 8 n]^T.
template <class T, int dim, int n>
__device__ void multiply_rows(Sums<n>& sums, const T* a, int row, const T* b) {
#pragma unroll
  for (int k = 0; k < dim; k += 16) {
    std::uint32_t of_a[4], of_b[4];
    load_a<dim>(of_a, a, row, k);
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      load_b_of_rows<dim>(of_b, b, 8 * j, k);
      mma_16x8x16<T>(sums.v[j], of_a, of_b[0], of_b[1]);
      mma_16x8x16<T>(sums.v[j + 1], of_a, of_b[2], of_b[3]);
    }
  }
}

/// Rounds score columns [16 k, 16 k + 16) to T, as operand A.
template <class T, int n>
__device__ void round_to_a(std::uint32_t (&a)[4], const Sums<n>& scores, int k) {
  const float(&left)[4] = scores.v[2 * k], (&right)[4] = scores.v[2 * k + 1];
  a[0] = pack_pair<T>(left[0], left[1]);
  a[1] = pack_pair<T>(left[2], left[3]);
  a[2] = pack_pair<T>(right[0], right[1]);
  a[3] = pack_pair<T>(right[2], right[3]);
}

/// sums (16, D) += scores (16, 8 n) tile[0 : 8 n], with scores rounded to T.
template <class T, int dim, int n>
__device__ void add_products(Sums<dim / 8>& sums, const Sums<n>& scores, const T* tile) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) {
    std::uint32_t a[4], b[4];
    round_to_a<T>(a, scores, k);
#pragma unroll
    for (int j = 0; j < dim / 8; j += 2) {
      load_b<dim>(b, tile, 16 * k, 8 * j);
      mma_16x8x16<T>(sums.v[j], a, b[0], b[1]);
      mma_16x8x16<T>(sums.v[j + 1], a, b[2], b[3]);
    }
  }
}

/// Writes the columns of sums (16, D) that `to` has to the rows `to`, of which only the first `count` exist. Multiplies
/// row g by `factor` and row g + 8 by `factor8`. `staged` is this warp's scratch memory: 16 tile rows.
template <int dim, class T>
__device__ void store_sums(const RowsOfHead<T>& to, int count, T* staged, const Sums<dim / 8>& sums, float factor,
                           float factor8) {
  const int g = lane() / 4, q = lane() % 4;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < dim / 8; ++j) {
    const float(&v)[4] = sums.v[j];
    T* at = staged + g * kTileRow<dim> + 8 * j + 2 * q;
    *reinterpret_cast<std::uint32_t*>(at) = pack_pair<T>(v[0] * factor, v[1] * factor);
    *reinterpret_cast<std::uint32_t*>(at + 8 * kTileRow<dim>) = pack_pair<T>(v[2] * factor8, v[3] * factor8);
  }
  __syncwarp();
  constexpr int kPieces = dim / 8;
  for (int i = lane(); i < 16 * kPieces; i += kWarp) {
    const int row = i / kPieces, d = i % kPieces * 8;
    if (row >= count || d >= to.dim) continue;
    T* at = to.first + row * to.stride + d;
    expect_aligned(at, kAccess);
    *reinterpret_cast<Words*>(at) = *reinterpret_cast<const Words*>(staged + row * kTileRow<dim> + d);
  }
}

/// The keys that the queries [begin, begin + count) see in sequence `b`. None of these queries sees a key outside
/// [lowest, highest). All of them see the keys [all_first, all_end). A query past the end counts as the last query. The
/// whole warp must call the constructor.
struct SeenKeys {
  int lowest, highest, all_first, all_end;
  template <class Shape>
  __device__ SeenKeys(const Shape& shape, int b, int begin, int count) {
    const auto query = [&](int t) { return t < shape.queries ? t : shape.queries - 1; };
    const KeyRange first = shape.visible(b, query(begin)), last = shape.visible(b, query(begin + count - 1));
    lowest = first.first;
    all_first = last.first;
    all_end = first.end;
    highest = last.end;
    if (shape.document_start == nullptr) return;
    for (int i = lane(); i < count; i += kWarp) {
      const int start = shape.visible(b, query(begin + i)).first;
      lowest = start < lowest ? start : lowest;
      all_first = start > all_first ? start : all_first;
    }
    lowest = warp_reduce(lowest, [](int x, int y) { return x < y ? x : y; });
    all_first = warp_reduce(all_first, [](int x, int y) { return x > y ? x : y; });
  }
};

/// A block's tile of queries: `size` queries of a head, from `first` on. Tiles with the most keys come first.
struct QueryTile {
  int b, g, h, head, first;
  __device__ QueryTile(const AttentionShape& shape, const TileOrder& order, int size) {
    const TileOrder::Place place = order.at(block_in_grid());
    first = (order.tiles - 1 - place.tile) * size;
    head = place.head % (shape.groups * shape.heads);
    b = place.head / (shape.groups * shape.heads);
    g = head / shape.heads;
    h = head % shape.heads;
  }
};

/// Calls body(T(), std::integral_constant<int, D>(), std::type_identity<TiledShape<...>>()) for a 16-bit dtype, one of
/// the sizes `dims`, and the call's shape. Throws for other sizes.
template <int... dims, class Body>
void with_head_size(const AttentionInput& in, std::int64_t dim, const Body& body) {
  const auto with_shape = [&](auto t, auto size) { with_tiled_shape(in, [&](auto shape) { body(t, size, shape); }); };
  const auto with_dim = [&](auto t) {
    const bool is_known = ((dim == dims && (with_shape(t, std::integral_constant<int, dims>()), true)) || ...);
    if (!is_known) fail(Exit::failure, "attention: no tensor-core kernel for heads of ", dim, " elements");
  };
  if (in.qkv.q.tensor.dtype() == DType::bf16) return with_dim(Bf16());
  with_dim(Half());
}
/// with_head_size() for AttentionVariant::tiles: D is the smallest tile's with at least `dim` columns.
template <class Body>
void with_tiles(const AttentionInput& in, const Body& body) {
  const std::int64_t dim = in.sizes().dim;
  const std::int64_t columns = dim <= 64 ? 64 : dim <= 80 ? 80 : dim <= 96 ? 96 : dim <= 128 ? 128 : dim;
  with_head_size<64, 80, 96, 128>(in, columns, body);
}

}  // namespace mtl::cuda
