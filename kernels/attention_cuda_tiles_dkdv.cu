// Attention's dk = scale dS^T q and dv = dropout(P)^T dout on tensor cores (Dao 2023). A block owns one group's key and
// value tile and loops over the query tiles that see these keys, one head of its part of the group at a time. While it
// computes with one stage, the next is copied. S and dP are computed transposed, (keys, queries), so that P^T and dS^T
// can be multiplied by dout and q from registers. Sums have a fixed order. Predicted: bound by mma.sync, with four
// products of B H T^2 D / 2 multiply-adds.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_gradients.h"

namespace mtl::cuda {

namespace {

/// A warp owns 16 keys. A stage holds queries and their dout, logsumexp, delta and first key.
template <int dim>
struct DkDvTile {
  static constexpr int kWarps = 4, kKeys = 16 * kWarps, kQueries = 32;
  static constexpr int kOwnTile = kKeys * kTileRow<dim>, kStage = 2 * kQueries * kTileRow<dim>;  // elements
  static constexpr std::size_t kBytes = (2 * kOwnTile + 2 * kStage) * 2 + 2 * sizeof(PartStatistics<kQueries>);
  static_assert(kBytes <= 99 << 10 && kQueries == kWarp);
};

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(DkDvTile<dim>::kWarps* kWarp, 2)
    write_dk_dv_tiles(const __grid_constant__ TiledBackward<T, Shape> f) {
  using Tile = DkDvTile<dim>;
  using Statistics = typename Shape::template Statistics<Tile::kQueries>;
  const Shape& shape = f.shape;
  const KeyTile own_tile(f, Tile::kKeys);
  const int b = own_tile.b, g = own_tile.g, first_key = own_tile.first;
  const int warp_row = warp_in_block() * 16, own_key = first_key + warp_row;
  T *keys = shared_memory<T>(), *values = keys + Tile::kOwnTile, *stages = values + Tile::kOwnTile;
  auto* statistics = reinterpret_cast<Statistics*>(stages + 2 * Tile::kStage);
  const SeeingQueries own(shape, own_key, 16);
  SeeingQueries queries(shape, first_key, Tile::kKeys);
  if (shape.document_start != nullptr)
    exclude_later_documents(queries, shape, b, first_key + Tile::kKeys - 1, shared_memory<int>());
  const int steps = (queries.end - queries.begin + Tile::kQueries - 1) / Tile::kQueries;  // per head
  const int first_step = own_tile.first_head * steps, end_step = own_tile.end_head * steps;
  const auto load = [&](int step, int stage) {
    const int h = step / steps, query = queries.begin + step % steps * Tile::kQueries;
    T* tile = stages + stage * Tile::kStage;
    const KeyRange inside{queries.begin, shape.queries};
    load_tile<Tile::kQueries, dim>(tile, f.q.rows(b, g, h), query, inside);
    load_tile<Tile::kQueries, dim>(tile + Tile::kStage / 2, f.dout.rows(b, g, h), query, inside);
    if (warp_in_block() == 0) {
      const int i = lane(), t = query + i;
      const bool exists = t < shape.queries;
      const std::int64_t row =
          exists ? (std::int64_t{b} * shape.groups * shape.heads + g * shape.heads + h) * shape.queries + t : 0;
      cp_async_4(&statistics[stage].logsumexp[i], f.logsumexp + row, exists);
      cp_async_4(&statistics[stage].delta[i], f.delta + row, exists);
      see_query(statistics[stage], shape, i, b, t);
    }
    cp_async_commit();
  };
  load_tile<Tile::kKeys, dim>(keys, f.k.rows(b, g, 0), first_key, {first_key, shape.keys});
  load_tile<Tile::kKeys, dim>(values, f.v.rows(b, g, 0), first_key, {first_key, shape.keys});
  if (first_step < end_step) load(first_step, 0);
  Sums<dim / 8> dk, dv;
  for (int step = first_step, stage = 0; step < end_step; ++step, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // this stage is loaded, and the other has been read
    if (step + 1 < end_step) load(step + 1, stage ^ 1);
    const int query = queries.begin + step % steps * Tile::kQueries;
    const Statistics& of_queries = statistics[stage];
    if (own_key >= shape.keys || of_queries.end_key(Tile::kQueries - 1, query) <= own_key || query >= own.end) continue;
    const int first_key_seen = of_queries.first_key[lane()];
    if (!__any_sync(kAllLanes, first_key_seen < own_key + 16)) continue;
    const T *tile = stages + stage * Tile::kStage, *douts = tile + Tile::kStage / 2;
    Sums<Tile::kQueries / 8> scores, dp;
    multiply_rows<T, dim>(scores, keys, warp_row, tile);  // S^T = k q^T
    multiply_rows<T, dim>(dp, values, warp_row, douts);   // dP^T = v dout^T
    const bool masked = __any_sync(kAllLanes, first_key_seen > own_key) || of_queries.end_key(0, query) < own_key + 16;
    if (masked) mask_transposed(scores, of_queries, query, own_key);
    write_probabilities_transposed(scores, of_queries, shape.scale * kLog2E, 1);
    const int head = g * shape.heads + step / steps;
    if (Shape::kDrops && shape.dropout.active) drop_transposed(scores, dp, shape, b, head, query, own_key);
    differentiate_transposed(scores, dp, of_queries, shape);
    add_products<T, dim>(dv, scores, douts);
    add_products<T, dim>(dk, dp, tile);
  }
  cp_async_commit();  // in case no query sees these keys, whose copies are then still under way
  cp_async_wait<0>();
  __syncthreads();
  if (f.parts > 1) return store_partials<dim>(f, own_key, dk, dv);
  const int count = shape.keys - own_key;
  T* staged = keys + warp_row * kTileRow<dim>;
  store_sums<dim>(f.dk.rows(b, g, 0, own_key), count, staged, dk, shape.scale, shape.scale);
  store_sums<dim>(f.dv.rows(b, g, 0, own_key), count, staged, dv, 1, 1);
}

}  // namespace

void attention_dk_dv_tiles(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                           Tensor logsumexp, const AttentionInput& in) {
  with_tiles(in, [&]<class T, int dim, class Shape>(T, std::integral_constant<int, dim>, std::type_identity<Shape>) {
    using Tile = DkDvTile<dim>;
    const TiledBackward<T, Shape> f(in, grads, dout, out, logsumexp, work, key_order(in.sizes(), Tile::kKeys));
    launch(stream, write_dk_dv_tiles<T, dim, Shape>, {f.order.blocks(), Tile::kWarps * kWarp, Tile::kBytes}, f);
  });
  attention_add_parts(stream, work, grads, in);
}

}  // namespace mtl::cuda
