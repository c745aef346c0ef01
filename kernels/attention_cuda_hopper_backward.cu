// The attention backward pass on sm_90a tensor cores, structured like the forward pass (attention_cuda_hopper.cu). One
// kernel computes dq: its blocks own queries and loop over key tiles. The other computes dk and dv: its blocks own keys
// and loop over query tiles, one head of their part of a group at a time. kernels/cuda/attention_gradients.h has the
// equations. The operands for S and dP are in shared memory. dS and, in the second kernel, P are operands in registers;
// the second kernel computes them transposed, so that nothing is transposed in shared memory. P is computed from S
// while the tensor cores compute dP.
//
// The kernels compute seven products with B H T^2 D / 2 multiply-adds each for the half of the scores that causality
// leaves, 7 B H T^2 D FLOPs in total. A single kernel for all three gradients would need only five products, but its
// blocks would share dq. Without atomics, they would have to add to dq one after another, in fp32. They would read 4 B
// H T^2 D / 128 bytes, and write as many, for a gradient of 2 B H T D bytes, and each block would wait for the one
// before. Bytes moved: q, k, v and dout twice, out and the gradients once; each block that needs a tile reads it again
// from L2. Sums have a fixed order. Predicted: bound by wgmma.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_gradients.h"
#include "kernels/cuda/attention_hopper.h"

namespace mtl::cuda {

namespace {

/// A block owns two tiles of `kOwn` rows: queries and dout, or keys and values. A stage has two tiles of `rows` rows
/// from the other two tensors, and statistics of queries.
template <int size, int rows, class OfQueries>
struct HopperBackwardTile {
  static constexpr int dim = size, kConsumers = 2, kOwn = 64 * kConsumers, kRows = rows;
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  using Statistics = OfQueries;
  // In elements. Gradients are staged separately, 64 columns at a time.
  static constexpr int kOwnTile = kOwn * dim, kTile = kRows * dim, kStaged = kOwn * kTileRow<kPanel>;
  static constexpr std::size_t kFixedBytes = kAtom + (2 * kOwnTile + kStaged) * 2 + sizeof(Barrier);
  static constexpr std::size_t kStageBytes = 2 * kTile * 2 + sizeof(Statistics) + 2 * sizeof(Barrier);
  static constexpr int kStages = stages_beside(kFixedBytes, kStageBytes);
  static constexpr std::size_t kBytes = kFixedBytes + kStages * kStageBytes;
  static_assert(kStages >= 2 && kBytes <= kSharedBytes);
};
template <int dim>
using HopperDqTile = HopperBackwardTile<dim, dim == 64 ? 128 : 64, QueryStatistics<1>>;
template <int dim, class Shape>
using HopperDkDvTile = HopperBackwardTile<dim, 64, typename Shape::template Statistics<64>>;

template <class T, class Shape>
struct HopperBackward {
  TensorMap q_map, k_map, v_map, dout_map;
  TiledBackward<T, Shape> f;
  int first_q, first_k, first_v;  // HeadSlice::first of each

  HopperBackward(const TileOrder& order, int query_rows, int key_rows, const AttentionInput& in, const Qkv& grads,
                 const Tensor& dout, const Tensor& out, const Tensor& logsumexp, const BackwardWork& work)
      : q_map(make_tensor_map(panel_map(in.qkv.q, query_rows))),
        k_map(make_tensor_map(panel_map(in.qkv.k, key_rows))),
        v_map(make_tensor_map(panel_map(in.qkv.v, key_rows))),
        dout_map(make_tensor_map(panel_map({heads_of(dout, in.sizes())}, query_rows))),
        f(in, grads, dout, out, logsumexp, work, order),
        first_q(static_cast<int>(in.qkv.q.first)),
        first_k(static_cast<int>(in.qkv.k.first)),
        first_v(static_cast<int>(in.qkv.v.first)) {}
  static Tensor heads_of(const Tensor& dout, const AttentionSizes& s) {
    return dout.view({s.batch, s.queries, s.groups, s.heads, s.dim});
  }
};

/// Shared memory of a block.
template <class T, class Tile>
struct HopperBackwardShared {
  T *own_tiles, *stages, *staged;
  typename Tile::Statistics* statistics;  // for each stage
  Barrier *own_full, *full, *empty;       // the last two for each stage

  __device__ HopperBackwardShared() {
    own_tiles = reinterpret_cast<T*>(first_atom());
    stages = own_tiles + 2 * Tile::kOwnTile;
    staged = stages + 2 * Tile::kStages * Tile::kTile;
    own_full = reinterpret_cast<Barrier*>(staged + Tile::kStaged);
    full = own_full + 1;
    empty = full + Tile::kStages;
    statistics = reinterpret_cast<typename Tile::Statistics*>(empty + Tile::kStages);
  }
  /// Return tile 0 or 1, owned by the block or in a stage.
  __device__ T* own(int which) const { return own_tiles + which * Tile::kOwnTile; }
  __device__ T* tile(int stage, int which) const { return stages + (2 * stage + which) * Tile::kTile; }
  /// A stage is full after `fillers` arrivals.
  __device__ void init(unsigned fillers) const {
    barrier_init(own_full, 1);
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      barrier_init(full + stage, fillers);
      barrier_init(empty + stage, 4 * Tile::kConsumers);  // one arrival per warp
    }
    barriers_ready();
  }
  __device__ void wait_until_empty(int i) const {
    if (i >= Tile::kStages) barrier_wait(empty + i % Tile::kStages, parity_of<Tile::kStages>(i - Tile::kStages));
  }
  __device__ void wait_until_full(int i) const { barrier_wait(full + i % Tile::kStages, parity_of<Tile::kStages>(i)); }
  /// Releases the stage with tile `i`, which this warp has read.
  __device__ void release(int i) const {
    __syncwarp();
    if (lane() == 0) barrier_arrive(empty + i % Tile::kStages);
  }
};

/// Writes sums (16, D) times a factor, like store_sums(), 64 columns at a time.
template <int dim, class T>
__device__ void store_panels(const RowsOfHead<T>& to, int count, T* staged, const Sums<dim / 8>& sums, float factor) {
#pragma unroll
  for (int column = 0; column < dim; column += kPanel) {
    Sums<kPanel / 8> panel;
#pragma unroll
    for (int j = 0; j < kPanel / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) panel.v[j][i] = sums.v[column / 8 + j][i];
    }
    store_sums<kPanel>(RowsOfHead<T>{to.first + column, to.stride, kPanel}, count, staged, panel, factor, factor);
  }
}

/// dq's producer, one thread: copies all tiles.
template <class Tile, class T, class Shape>
__device__ void copy_keys(const HopperBackward<T, Shape>& hopper, const HopperBackwardShared<T, Tile>& shared,
                          const HopperQueries& own) {
  constexpr int dim = Tile::dim;
  barrier_arrive_expecting(shared.own_full, tile_bytes<dim>(2 * Tile::kOwn));
  copy_tile<dim>(shared.own(0), hopper.q_map, shared.own_full, Tile::kOwn, hopper.first_q + own.h, own.g, own.first,
                 own.b);
  copy_tile<dim>(shared.own(1), hopper.dout_map, shared.own_full, Tile::kOwn, own.h, own.g, own.first, own.b);
  for (int key = own.first_key, i = 0; key < own.end_key; key += Tile::kRows, ++i) {
    const int stage = i % Tile::kStages;
    shared.wait_until_empty(i);
    Barrier* full = shared.full + stage;
    barrier_arrive_expecting(full, tile_bytes<dim>(2 * Tile::kRows));
    copy_tile<dim>(shared.tile(stage, 0), hopper.k_map, full, Tile::kRows, hopper.first_k, own.g, key, own.b);
    copy_tile<dim>(shared.tile(stage, 1), hopper.v_map, full, Tile::kRows, hopper.first_v, own.g, key, own.b);
  }
}

/// A consumer warpgroup: computes dq for its 64 queries.
template <class Tile, class T, class Shape>
__device__ void sum_dq(const TiledBackward<T, Shape>& f, const HopperBackwardShared<T, Tile>& shared,
                       const HopperQueries& own, int warpgroup) {
  constexpr int dim = Tile::dim;
  const Shape& shape = f.shape;
  const int warp_row = warp_in_block() * 16, t = own.first + warp_row;
  const int first = own.first + 64 * warpgroup;
  const SeenKeys seen(shape, own.b, first, 64);  // for the entire warpgroup: all of its warps must agree
  const T *queries = shared.own(0) + 64 * warpgroup * kPanel, *douts = shared.own(1) + 64 * warpgroup * kPanel;
  DqRows rows;
  sum_delta<dim>(rows, f, dim, own.b, own.head, t);
  Sums<dim / 8> dq;
  Sums<Tile::kRows / 8> scores, dp;
  barrier_wait(shared.own_full, 0);
  for (int key = own.first_key, i = 0; key < own.end_key; key += Tile::kRows, ++i) {
    const T *keys = shared.tile(i % Tile::kStages, 0), *values = shared.tile(i % Tile::kStages, 1);
    shared.wait_until_full(i);
    if (first < shape.queries && key < seen.highest && key + Tile::kRows > seen.lowest) {
      // S = q k^T, dP = dout v^T; P and dS; dq += dS k
      start_product_of_rows<T, dim, Tile::kOwn>(scores, queries, keys);
      start_product_of_rows<T, dim, Tile::kOwn>(dp, douts, values);
      wgmma_end<1>(scores);
      const bool masked = key < seen.all_first || key + Tile::kRows > seen.all_end;
      write_probabilities(scores, rows, shape.scale * kLog2E, key, masked);
      wgmma_end<0>(dp);
      differentiate(scores, dp, rows, shape, own.b, own.head, t, key);
      AllOfA<Tile::kRows / 8> a;
      round_to_all_of_a<T>(a, scores);
      start_product_of_columns(dq, a, keys);
      wgmma_end<0>(dq);
    }
    shared.release(i);
  }
  store_panels<dim>(f.dq.rows(own.b, own.g, own.h, t), shape.queries - t, shared.staged + warp_row * kTileRow<kPanel>,
                    dq, shape.scale);
}

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(HopperDqTile<dim>::kThreads, 1)
    write_dq_hopper(const __grid_constant__ HopperBackward<T, Shape> hopper) {
#if MTL_HOPPER_CODE
  using Tile = HopperDqTile<dim>;
  const HopperBackwardShared<T, Tile> shared;
  if (threadIdx.x == 0) shared.init(1);
  __syncthreads();
  with_roles<Tile>(
      [&] {
        const HopperQueries own(hopper.f.shape, hopper.f.order, Tile::kOwn, Tile::kRows);
        if (lane() == 0) copy_keys<Tile>(hopper, shared, own);
      },
      [&](int warpgroup) {
        const HopperQueries own(hopper.f.shape, hopper.f.order, Tile::kOwn, Tile::kRows);
        sum_dq<Tile>(hopper.f, shared, own, warpgroup);
      });
#else
  __trap();  // compiled for another architecture; returning would leave the results unwritten
#endif
}

/// A block's key tile, and the queries that may see it.
struct HopperKeys : KeyTile {
  SeeingQueries queries;
  template <class Tile, class T, class Shape>
  __device__ HopperKeys(Tile, const TiledBackward<T, Shape>& f, int* shared)
      : KeyTile(f, Tile::kOwn), queries(f.shape, first, Tile::kOwn) {
    if (f.shape.document_start != nullptr) exclude_later_documents(queries, f.shape, b, first + Tile::kOwn - 1, shared);
  }
};

/// Loads a query tile's statistics, with logsumexp times log2(e); called by an entire warp. All loads are in flight
/// together. Beyond the last query, logsumexp is infinite, so P is 0.
template <int rows, class Statistics, class T, class Shape>
__device__ void load_statistics(Statistics& to, const TiledBackward<T, Shape>& f, int b, int head, int query) {
  const Shape& shape = f.shape;
  const std::int64_t first = (std::int64_t{b} * shape.groups * shape.heads + head) * shape.queries;
  constexpr int kEach = rows / kWarp;
  float logsumexp[kEach], delta[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int t = query + k * kWarp + lane();
    const bool exists = t < shape.queries;
    logsumexp[k] = exists ? f.logsumexp[first + t] : INFINITY;
    delta[k] = exists ? f.delta[first + t] : 0;
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) see_query(to, shape, k * kWarp + lane(), b, query + k * kWarp + lane());
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    to.logsumexp[k * kWarp + lane()] = logsumexp[k] * kLog2E;
    to.delta[k * kWarp + lane()] = delta[k];
  }
}

/// The producer for dk and dv, one warp: copies all tiles and their statistics.
template <class Tile, class T, class Shape>
__device__ void copy_queries(const HopperBackward<T, Shape>& hopper, const HopperBackwardShared<T, Tile>& shared,
                             const HopperKeys& own) {
  constexpr int dim = Tile::dim;
  if (lane() == 0) {
    barrier_arrive_expecting(shared.own_full, tile_bytes<dim>(2 * Tile::kOwn));
    copy_tile<dim>(shared.own(0), hopper.k_map, shared.own_full, Tile::kOwn, hopper.first_k, own.g, own.first, own.b);
    copy_tile<dim>(shared.own(1), hopper.v_map, shared.own_full, Tile::kOwn, hopper.first_v, own.g, own.first, own.b);
  }
  for (int h = own.first_head, i = 0; h < own.end_head; ++h) {
    for (int query = own.queries.begin; query < own.queries.end; query += Tile::kRows, ++i) {
      const int stage = i % Tile::kStages;
      shared.wait_until_empty(i);
      Barrier* full = shared.full + stage;
      if (lane() == 0) {
        barrier_arrive_expecting(full, tile_bytes<dim>(2 * Tile::kRows));
        copy_tile<dim>(shared.tile(stage, 0), hopper.q_map, full, Tile::kRows, hopper.first_q + h, own.g, query, own.b);
        copy_tile<dim>(shared.tile(stage, 1), hopper.dout_map, full, Tile::kRows, h, own.g, query, own.b);
      }
      load_statistics<Tile::kRows>(shared.statistics[stage], hopper.f, own.b, own.g * hopper.f.shape.heads + h, query);
      __syncwarp();
      if (lane() == 0) barrier_arrive(full);
    }
  }
}

/// Whether queries in a tile may see a warpgroup's 64 keys, starting at `key`, and whether their scores need the mask.
struct TileOverlap {
  bool any, masked;
  template <class Tile>
  __device__ TileOverlap(Tile, const AttentionShape& shape, const typename Tile::Statistics& statistics, int query,
                         int key) {
    bool sees_some = false, misses_some = false;
    for (int i = lane(); i < Tile::kRows; i += kWarp) {
      sees_some |= statistics.first_key[i] < key + 64;
      misses_some |= statistics.first_key[i] > key;
    }
    any = __any_sync(kAllLanes, sees_some) && key < shape.keys && statistics.end_key(Tile::kRows - 1, query) > key;
    masked = __any_sync(kAllLanes, misses_some) || statistics.end_key(0, query) < key + 64;
  }
};

/// Changes no probability, which ptxas does not know. Otherwise it rounds P while dS is computed and, for heads of 128
/// elements, has too few registers to keep two wgmmas in flight.
template <int n>
__device__ void renew(Sums<n>& probabilities) {
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) probabilities.v[j][i] = fmaxf(probabilities.v[j][i], 0);
  }
}

/// A consumer warpgroup: computes dk and dv for its 64 keys.
template <class Tile, class T, class Shape>
__device__ void sum_dk_dv(const TiledBackward<T, Shape>& f, const HopperBackwardShared<T, Tile>& shared,
                          const HopperKeys& own, int warpgroup) {
  constexpr int dim = Tile::dim;
  const Shape& shape = f.shape;
  const int warp_row = warp_in_block() * 16, own_key = own.first + warp_row;
  const T *keys = shared.own(0) + 64 * warpgroup * kPanel, *values = shared.own(1) + 64 * warpgroup * kPanel;
  Sums<dim / 8> dk, dv;
  Sums<Tile::kRows / 8> scores, dp;
  barrier_wait(shared.own_full, 0);
  for (int h = own.first_head, i = 0; h < own.end_head; ++h) {
    for (int query = own.queries.begin; query < own.queries.end; query += Tile::kRows, ++i) {
      const int stage = i % Tile::kStages;
      const T *queries = shared.tile(stage, 0), *douts = shared.tile(stage, 1);
      const typename Tile::Statistics& statistics = shared.statistics[stage];
      shared.wait_until_full(i);
      const TileOverlap meeting(Tile(), shape, statistics, query, own.first + 64 * warpgroup);
      if (meeting.any) {
        // S^T = k q^T, dP^T = v dout^T; P^T and dS^T; dv += P^T dout, dk += dS^T q
        start_product_of_rows<T, dim, Tile::kOwn>(scores, keys, queries);
        start_product_of_rows<T, dim, Tile::kOwn>(dp, values, douts);
        wgmma_end<1>(scores);
        if (meeting.masked) mask_transposed(scores, statistics, query, own_key);
        write_probabilities_transposed(scores, statistics, shape.scale * kLog2E, kLog2E);
        wgmma_end<0>(dp);
        const int head = own.g * shape.heads + h;
        if (Shape::kDrops && shape.dropout.active) drop_transposed(scores, dp, shape, own.b, head, query, own_key);
        differentiate_transposed(scores, dp, statistics, shape);
        if constexpr (dim > kPanel && !Shape::kDrops) renew(scores);
        AllOfA<Tile::kRows / 8> of_probabilities, of_dscores;
        round_to_all_of_a<T>(of_probabilities, scores);
        start_product_of_columns(dv, of_probabilities, douts);
        round_to_all_of_a<T>(of_dscores, dp);
        start_product_of_columns(dk, of_dscores, queries);
        wgmma_end<1>(dv);
        wgmma_end<0>(dk);
      }
      shared.release(i);
    }
  }
  if (f.parts > 1) return store_partials<dim>(f, own_key, dk, dv);
  T* staged = shared.staged + warp_row * kTileRow<kPanel>;
  const int count = shape.keys - own_key;
  store_panels<dim>(f.dk.rows(own.b, own.g, 0, own_key), count, staged, dk, shape.scale);
  store_panels<dim>(f.dv.rows(own.b, own.g, 0, own_key), count, staged, dv, 1);
}

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(HopperDkDvTile<dim, Shape>::kThreads, 1)
    write_dk_dv_hopper(const __grid_constant__ HopperBackward<T, Shape> hopper) {
#if MTL_HOPPER_CODE
  using Tile = HopperDkDvTile<dim, Shape>;
  const HopperBackwardShared<T, Tile> shared;
  if (threadIdx.x == 0) shared.init(2);  // one arrival for the copies, one for the statistics
  __syncthreads();
  const HopperKeys own(Tile(), hopper.f, reinterpret_cast<int*>(shared.staged));
  with_roles<Tile>([&] { copy_queries<Tile>(hopper, shared, own); },
                   [&](int warpgroup) { sum_dk_dv<Tile>(hopper.f, shared, own, warpgroup); });
#else
  __trap();  // compiled for another architecture; returning would leave the results unwritten
#endif
}

}  // namespace

void attention_backward_hopper(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                               Tensor logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  with_head_size<64, 128>(
      in, sizes.dim,
      [&]<class T, int dim, class Shape>(T, std::integral_constant<int, dim>, std::type_identity<Shape>) {
        using ForDq = HopperDqTile<dim>;
        using ForKeys = HopperDkDvTile<dim, Shape>;
        const HopperBackward<T, Shape> dq(query_order(sizes, ForDq::kOwn), ForDq::kOwn, ForDq::kRows, in, grads, dout,
                                          out, logsumexp, work);
        const HopperBackward<T, Shape> keys(key_order(sizes, ForKeys::kOwn), ForKeys::kRows, ForKeys::kOwn, in, grads,
                                            dout, out, logsumexp, work);
        launch(stream, write_dq_hopper<T, dim, Shape>, {dq.f.order.blocks(), ForDq::kThreads, ForDq::kBytes}, dq);
        launch(stream, write_dk_dv_hopper<T, dim, Shape>, {keys.f.order.blocks(), ForKeys::kThreads, ForKeys::kBytes},
               keys);
      });
  attention_add_parts(stream, work, grads, in);
}

}  // namespace mtl::cuda
