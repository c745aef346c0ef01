// Attention's forward pass on sm_90a tensor cores (Shah et al. 2024). A block owns a tile of queries. The producer, one
// warp in the last warpgroup, copies tiles of keys and values with TMA, two to four of each ahead. The consumers, the
// other warpgroups, own 64 queries each. They compute products with wgmma from shared memory, and keep scores,
// probabilities and outputs in registers. While one consumer waits for a product, the other computes a softmax.
// Supports only heads with 64 or 128 elements, in whole sequences or parts of them.
//
// Predicted: bound by wgmma, with 2 B H T^2 D multiply-adds for the half of the scores that causality leaves, and by B
// H T^2 / 2 exponentials. For D = 64, the exponentials take as many cycles as the products. Bytes moved: see
// attention_cuda_tiles.cu.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/attention_softmax.h"

namespace mtl::cuda {

namespace {

template <int dim>
struct HopperTile {
  static constexpr int kConsumers = 2;  // consumer warpgroups; three would run out of registers
  static constexpr int kQueries = 64 * kConsumers, kKeys = 128;
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  // In elements. Outputs are staged separately, because the warpgroups finish at different times.
  static constexpr int kOwnTile = kQueries * dim, kTile = kKeys * dim, kStaged = kQueries * kTileRow<dim>;
  static constexpr std::size_t kFixedBytes = kAtom + (kOwnTile + kStaged) * 2 + sizeof(Barrier);
  static constexpr std::size_t kStageBytes = 2 * kTile * 2 + 4 * sizeof(Barrier);
  static constexpr int kStages = stages_beside(kFixedBytes, kStageBytes);
  static constexpr std::size_t kBytes = kFixedBytes + kStages * kStageBytes;
  static_assert(kStages >= 2 && kBytes <= kSharedBytes);
};

template <class T, class Shape>
struct HopperForward {
  TensorMap q_map, k_map, v_map;
  ForwardOperands<T, Shape> f;
  int first_q, first_k, first_v;  // HeadSlice::first of each
  TileOrder order;
};

/// Shared memory of a block.
template <class T, int dim>
struct HopperShared {
  using Tile = HopperTile<dim>;
  T *queries, *stages, *staged;
  Barrier *queries_full, *keys_full, *values_full, *keys_empty, *values_empty;  // all but the first for each stage

  __device__ HopperShared() {
    queries = reinterpret_cast<T*>(first_atom());
    stages = queries + Tile::kOwnTile;
    staged = stages + 2 * Tile::kStages * Tile::kTile;
    queries_full = reinterpret_cast<Barrier*>(staged + Tile::kStaged);
    keys_full = queries_full + 1;
    values_full = keys_full + Tile::kStages;
    keys_empty = values_full + Tile::kStages;
    values_empty = keys_empty + Tile::kStages;
  }
  __device__ T* keys(int stage) const { return stages + 2 * stage * Tile::kTile; }
  __device__ T* values(int stage) const { return keys(stage) + Tile::kTile; }
  __device__ void init() const {
    barrier_init(queries_full, 1);
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      barrier_init(keys_full + stage, 1);
      barrier_init(values_full + stage, 1);
      barrier_init(keys_empty + stage, 4 * Tile::kConsumers);  // one arrival per warp
      barrier_init(values_empty + stage, 4 * Tile::kConsumers);
    }
    barriers_ready();
  }
};

/// The producer, one thread: copies all tiles.
template <class T, int dim, class Shape>
__device__ void produce(const HopperForward<T, Shape>& hopper, const HopperShared<T, dim>& shared,
                        const HopperQueries& own) {
  using Tile = HopperTile<dim>;
  const auto copy = [&](T* to, const TensorMap& map, Barrier* full, int rows, int head, int position) {
    barrier_arrive_expecting(full, tile_bytes<dim>(rows));
    copy_tile<dim>(to, map, full, rows, head, own.g, position, own.b);
  };
  copy(shared.queries, hopper.q_map, shared.queries_full, Tile::kQueries, hopper.first_q + own.h, own.first);
  for (int key = own.first_key, i = 0; key < own.end_key; key += Tile::kKeys, ++i) {
    const int stage = i % Tile::kStages;
    const auto wait_until_empty = [&](Barrier* empty) {
      if (i >= Tile::kStages) barrier_wait(empty + stage, parity_of<Tile::kStages>(i - Tile::kStages));
    };
    wait_until_empty(shared.keys_empty);
    copy(shared.keys(stage), hopper.k_map, shared.keys_full + stage, Tile::kKeys, hopper.first_k, key);
    wait_until_empty(shared.values_empty);
    copy(shared.values(stage), hopper.v_map, shared.values_full + stage, Tile::kKeys, hopper.first_v, key);
  }
}

/// A consumer warpgroup: computes the outputs of its 64 queries.
template <class T, int dim, class Shape>
__device__ void consume(const HopperForward<T, Shape>& hopper, const HopperShared<T, dim>& shared,
                        const HopperQueries& own, int warpgroup) {
  using Tile = HopperTile<dim>;
  const ForwardOperands<T, Shape>& f = hopper.f;
  const Shape& shape = f.shape;
  const int warp_row = warp_in_block() * 16, t = own.first + warp_row;
  const int first = own.first + 64 * warpgroup;
  const SeenKeys seen(shape, own.b, first, 64);  // for the entire warpgroup: all of its warps must agree
  const T* queries = shared.queries + 64 * warpgroup * kPanel;
  const float scale_log2 = shape.scale * kLog2E;
  SoftmaxRows rows;
  rows.see(shape, own.b, t);
  Sums<dim / 8> out;
  Sums<Tile::kKeys / 8> scores;
  const auto release = [](Barrier* empty) {
    __syncwarp();
    if (lane() == 0) barrier_arrive(empty);
  };
  barrier_wait(shared.queries_full, 0);
  for (int key = own.first_key, i = 0; key < own.end_key; key += Tile::kKeys, ++i) {
    const int stage = i % Tile::kStages;
    const bool any = first < shape.queries && key < seen.highest && key + Tile::kKeys > seen.lowest;
    barrier_wait(shared.keys_full + stage, parity_of<Tile::kStages>(i));
    if (any) {  // S = q k^T, P = exp(scale (S - max))
      start_product_of_rows<T, dim, Tile::kQueries>(scores, queries, shared.keys(stage));
      wgmma_end<0>(scores);
    }
    release(shared.keys_empty + stage);  // the next keys can come while the softmax is computed
    if (any) {
      if (key < seen.all_first || key + Tile::kKeys > seen.all_end) mask_scores(scores, rows.seen, key);
      scale_rows(out, rows.exponentiate(scores, scale_log2));
      if (Shape::kDrops && shape.dropout.active) drop(scores, shape, own.b, own.head, t, key);
    }
    barrier_wait(shared.values_full + stage, parity_of<Tile::kStages>(i));
    if (any) {  // out += P v
      AllOfA<Tile::kKeys / 8> a;
      round_to_all_of_a<T>(a, scores);
      start_product_of_columns(out, a, shared.values(stage));
      wgmma_end<0>(out);
    }
    release(shared.values_empty + stage);
  }
  const std::int64_t first_row = (std::int64_t{own.b} * shape.groups * shape.heads + own.head) * shape.queries;
  const RowFactors factors = rows.finish(shape, f.logsumexp == nullptr ? nullptr : f.logsumexp + first_row, t);
  store_sums<dim>(f.out.rows(own.b, own.g, own.h, t), shape.queries - t, shared.staged + warp_row * kTileRow<dim>, out,
                  factors.of[0], factors.of[1]);
}

template <class T, int dim, class Shape>
__global__ void __launch_bounds__(HopperTile<dim>::kThreads, 1)
    attend_hopper(const __grid_constant__ HopperForward<T, Shape> hopper) {
#if MTL_HOPPER_CODE
  using Tile = HopperTile<dim>;
  const HopperShared<T, dim> shared;
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  with_roles<Tile>(
      [&] {
        const HopperQueries own(hopper.f.shape, hopper.order, Tile::kQueries, Tile::kKeys);
        if (lane() == 0) produce(hopper, shared, own);
      },
      [&](int warpgroup) {
        const HopperQueries own(hopper.f.shape, hopper.order, Tile::kQueries, Tile::kKeys);
        consume(hopper, shared, own, warpgroup);
      });
#else
  __trap();  // compiled for another architecture; returning would leave the results unwritten
#endif
}

}  // namespace

void attention_forward_hopper(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  with_head_size<64, 128>(
      in, sizes.dim,
      [&]<class T, int dim, class Shape>(T, std::integral_constant<int, dim>, std::type_identity<Shape>) {
        using Tile = HopperTile<dim>;
        const HopperForward<T, Shape> hopper{.q_map = make_tensor_map(panel_map(in.qkv.q, Tile::kQueries)),
                                             .k_map = make_tensor_map(panel_map(in.qkv.k, Tile::kKeys)),
                                             .v_map = make_tensor_map(panel_map(in.qkv.v, Tile::kKeys)),
                                             .f = {in, out, logsumexp},
                                             .first_q = static_cast<int>(in.qkv.q.first),
                                             .first_k = static_cast<int>(in.qkv.k.first),
                                             .first_v = static_cast<int>(in.qkv.v.first),
                                             .order = query_order(sizes, Tile::kQueries)};
        launch(stream, attend_hopper<T, dim, Shape>, {hopper.order.blocks(), Tile::kThreads, Tile::kBytes}, hopper);
      });
}

}  // namespace mtl::cuda
