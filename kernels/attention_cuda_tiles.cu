// Attention's forward pass on tensor cores (Dao 2023). A block owns a query tile, whose fragments stay in registers,
// and loops over the key and value tiles these queries see. While it computes with one stage, the next is copied.
// Probabilities stay in registers. Predicted: bound by mma.sync, with 2 B H T^2 D multiply-adds for the half of the
// scores that causality leaves. Bytes moved: q and out once, and keys and values once per query tile, from L2.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_softmax.h"

namespace mtl::cuda {

namespace {

/// A warp owns kParts * 16 queries. Two parts, if there are enough registers, halve the reads from shared memory.
template <int dim>
struct ForwardTile {
  static constexpr int kWarps = 4, kParts = dim <= 64 ? 2 : 1, kQueries = 16 * kParts * kWarps, kKeys = 64;
  static constexpr int kStage = 2 * kKeys * kTileRow<dim>;  // elements in a key tile and a value tile
  // The queries are in the second stage until they are in registers, so that two blocks fit in sm_80's 164 KiB.
  static constexpr std::size_t kBytes = 2 * kStage * 2;
  static_assert(kQueries * kTileRow<dim> <= kStage && 2 * (kBytes + 1024) <= 164 << 10);
};

template <class T, class Shape>
struct TiledForward : ForwardOperands<T, Shape> {
  TileOrder order;
};

/// Part of a warp's tile: 16 queries.
template <int dim>
struct QueryPart {
  std::uint32_t q[dim / 16][4];
  Sums<dim / 8> out;
  SoftmaxRows rows;
};

/// S = q k^T for all parts and a key tile's first 8 n rows. Reads each key fragment once.
template <class T, int dim, int parts, int n>
__device__ void multiply_parts(Sums<n> (&scores)[parts], const QueryPart<dim> (&part)[parts], const T* keys) {
#pragma unroll
  for (int k = 0; k < dim / 16; ++k) {
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      std::uint32_t b[4];
      load_b_of_rows<dim>(b, keys, 8 * j, 16 * k);
#pragma unroll
      for (int p = 0; p < parts; ++p) {
        mma_16x8x16<T>(scores[p].v[j], part[p].q[k], b[0], b[1]);
        mma_16x8x16<T>(scores[p].v[j + 1], part[p].q[k], b[2], b[3]);
      }
    }
  }
}

/// out += P v. Reads each value fragment once.
template <class T, int dim, int parts, int n>
__device__ void add_values(QueryPart<dim> (&part)[parts], const Sums<n> (&scores)[parts], const T* values) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) {
    std::uint32_t a[parts][4], b[4];
#pragma unroll
    for (int p = 0; p < parts; ++p) round_to_a<T>(a[p], scores[p], k);
#pragma unroll
    for (int j = 0; j < dim / 8; j += 2) {
      load_b<dim>(b, values, 16 * k, 8 * j);
#pragma unroll
      for (int p = 0; p < parts; ++p) {
        mma_16x8x16<T>(part[p].out.v[j], a[p], b[0], b[1]);
        mma_16x8x16<T>(part[p].out.v[j + 1], a[p], b[2], b[3]);
      }
    }
  }
}

/// The shape that a kernel computes with. For sm_100, nvcc spills registers of two parts unless it is the general one.
#if __CUDA_ARCH__ >= 1000
template <class Shape, int parts>
using ComputedShape = std::conditional_t<parts == 2, AttentionShape, Shape>;
#else
template <class Shape, int parts>
using ComputedShape = Shape;
#endif

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(ForwardTile<dim>::kWarps* kWarp, 2)
    attend_tiles(const __grid_constant__ TiledForward<T, Shape> f) {
  using Tile = ForwardTile<dim>;
  constexpr int kParts = Tile::kParts;
  const ComputedShape<Shape, kParts>& shape = f.shape;
  constexpr bool kDrops = Shape::kDrops || !std::is_same_v<ComputedShape<Shape, kParts>, Shape>;
  const auto [b, g, h, head, first_query] = QueryTile(shape, f.order, Tile::kQueries);
  const int warp_row = warp_in_block() * 16 * kParts;
  T *stages = shared_memory<T>(), *queries = stages + Tile::kStage;
  const SeenKeys block_sees(shape, b, first_query, Tile::kQueries);
  const SeenKeys warp_sees(shape, b, first_query + warp_row, 16 * kParts);
  const bool any_query = first_query + warp_row < shape.queries;
  const KeyRange keys{block_sees.lowest, block_sees.highest};
  const int first_key = keys.first / Tile::kKeys * Tile::kKeys;
  const auto load = [&](int key, int stage) {
    T* tile = stages + stage * Tile::kStage;
    load_tile<Tile::kKeys, dim>(tile, f.k.rows(b, g, 0), key, keys);
    load_tile<Tile::kKeys, dim>(tile + Tile::kStage / 2, f.v.rows(b, g, 0), key, keys);
    cp_async_commit();
  };
  QueryPart<dim> part[kParts];
#pragma unroll
  for (int p = 0; p < kParts; ++p) part[p].rows.see(shape, b, first_query + warp_row + 16 * p);
  load_tile<Tile::kQueries, dim>(queries, f.q.rows(b, g, h), first_query, {first_query, shape.queries});
  load(first_key, 0);
  const float scale_log2 = shape.scale * kLog2E;
  for (int key = first_key, stage = 0; key < keys.end; key += Tile::kKeys, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // this stage is loaded, and the other has been read
    if (key == first_key) {
#pragma unroll
      for (int p = 0; p < kParts; ++p)
#pragma unroll
        for (int k = 0; k < dim / 16; ++k) load_a<dim>(part[p].q[k], queries, warp_row + 16 * p, 16 * k);
      __syncthreads();  // the queries have been read
    }
    if (key + Tile::kKeys < keys.end) load(key + Tile::kKeys, stage ^ 1);
    if (!any_query || key >= warp_sees.highest || key + Tile::kKeys <= warp_sees.lowest) continue;
    const T *tile = stages + stage * Tile::kStage, *values = tile + Tile::kStage / 2;
    Sums<Tile::kKeys / 8> scores[kParts];
    multiply_parts<T>(scores, part, tile);
    const bool masked = key < warp_sees.all_first || key + Tile::kKeys > warp_sees.all_end;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if (masked) mask_scores(scores[p], part[p].rows.seen, key);
      scale_rows(part[p].out, part[p].rows.exponentiate(scores[p], scale_log2));
      if (kDrops && shape.dropout.active) drop(scores[p], shape, b, head, first_query + warp_row + 16 * p, key);
    }
    add_values<T>(part, scores, values);
  }
  cp_async_wait<0>();  // in case no key is seen
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int t = first_query + warp_row + 16 * p;
    float* logsumexp = f.logsumexp == nullptr
                           ? nullptr
                           : f.logsumexp + (std::int64_t{b} * shape.groups * shape.heads + head) * shape.queries;
    const auto factor = part[p].rows.finish(shape, logsumexp, t);
    store_sums<dim>(f.out.rows(b, g, h, t), shape.queries - t, queries + (warp_row + 16 * p) * kTileRow<dim>,
                    part[p].out, factor.of[0], factor.of[1]);
  }
}

}  // namespace

void attention_forward_tiles(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  with_tiles(in, [&]<class T, int dim, class Shape>(T, std::integral_constant<int, dim>, std::type_identity<Shape>) {
    using Tile = ForwardTile<dim>;
    const TiledForward<T, Shape> f{{in, out, logsumexp}, query_order(sizes, Tile::kQueries)};
    launch(stream, attend_tiles<T, dim, Shape>, {f.order.blocks(), Tile::kWarps * kWarp, Tile::kBytes}, f);
  });
}

}  // namespace mtl::cuda
