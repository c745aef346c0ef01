// Attention's dq = scale dS k on tensor cores (Dao 2023), without atomics. A block owns a query tile and loops over the
// key and value tiles these queries see. While it computes with one stage, the next is copied. Also writes delta, which
// the dk and dv kernel reads. Predicted: bound by mma.sync, with three products of B H T^2 D / 2 multiply-adds.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_gradients.h"

namespace mtl::cuda {

namespace {

/// A warp owns 16 queries. It reads fragments of q and dout again for each key tile, because registers are scarce.
template <int dim>
struct DqTile {
  static constexpr int kWarps = 4, kQueries = 16 * kWarps, kKeys = dim <= 96 ? 64 : 32;
  static constexpr int kOwnTile = kQueries * kTileRow<dim>, kStage = 2 * kKeys * kTileRow<dim>;  // elements
  static constexpr std::size_t kBytes = (2 * kOwnTile + 2 * kStage) * 2;
  static_assert(kBytes <= 99 << 10);
};

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(DqTile<dim>::kWarps* kWarp, 2)
    write_dq_tiles(const __grid_constant__ TiledBackward<T, Shape> f) {
  using Tile = DqTile<dim>;
  const Shape& shape = f.shape;
  const auto [b, g, h, head, first_query] = QueryTile(shape, f.order, Tile::kQueries);
  const int warp_row = warp_in_block() * 16, t = first_query + warp_row;
  T *queries = shared_memory<T>(), *douts = queries + Tile::kOwnTile, *stages = douts + Tile::kOwnTile;
  const SeenKeys block_sees(shape, b, first_query, Tile::kQueries), warp_sees(shape, b, t, 16);
  const KeyRange keys{block_sees.lowest, block_sees.highest}, own{first_query, shape.queries};
  const int first_key = keys.first / Tile::kKeys * Tile::kKeys;
  const auto load = [&](int key, int stage) {
    T* tile = stages + stage * Tile::kStage;
    load_tile<Tile::kKeys, dim>(tile, f.k.rows(b, g, 0), key, keys);
    load_tile<Tile::kKeys, dim>(tile + Tile::kStage / 2, f.v.rows(b, g, 0), key, keys);
    cp_async_commit();
  };
  load_tile<Tile::kQueries, dim>(queries, f.q.rows(b, g, h), first_query, own);
  load_tile<Tile::kQueries, dim>(douts, f.dout.rows(b, g, h), first_query, own);
  load(first_key, 0);
  DqRows rows;
  sum_delta<dim>(rows, f, shape.dim, b, head, t);
  Sums<dim / 8> dq;
  for (int key = first_key, stage = 0; key < keys.end; key += Tile::kKeys, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // this stage is loaded, and the other has been read
    if (key + Tile::kKeys < keys.end) load(key + Tile::kKeys, stage ^ 1);
    if (t >= shape.queries || key >= warp_sees.highest || key + Tile::kKeys <= warp_sees.lowest) continue;
    const T *tile = stages + stage * Tile::kStage, *values = tile + Tile::kStage / 2;
    Sums<Tile::kKeys / 8> scores, dp;
    multiply_rows<T, dim>(scores, queries, warp_row, tile);  // S = q k^T
    multiply_rows<T, dim>(dp, douts, warp_row, values);      // dP = dout v^T
    const bool masked = key < warp_sees.all_first || key + Tile::kKeys > warp_sees.all_end;
    write_probabilities(scores, rows, shape.scale * kLog2E, key, masked);
    differentiate(scores, dp, rows, shape, b, head, t, key);
    add_products<T, dim>(dq, scores, tile);
  }
  cp_async_wait<0>();  // in case no key is seen
  __syncthreads();
  store_sums<dim>(f.dq.rows(b, g, h, t), shape.queries - t, queries + warp_row * kTileRow<dim>, dq, shape.scale,
                  shape.scale);
}

}  // namespace

void attention_dq_tiles(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                        Tensor logsumexp, const AttentionInput& in) {
  with_tiles(in, [&]<class T, int dim, class Shape>(T, std::integral_constant<int, dim>, std::type_identity<Shape>) {
    using Tile = DqTile<dim>;
    const TiledBackward<T, Shape> f(in, grads, dout, out, logsumexp, work, query_order(in.sizes(), Tile::kQueries));
    launch(stream, write_dq_tiles<T, dim, Shape>, {f.order.blocks(), Tile::kWarps * kWarp, Tile::kBytes}, f);
  });
}

}  // namespace mtl::cuda
