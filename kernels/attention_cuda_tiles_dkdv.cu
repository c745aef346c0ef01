// dk and dv on tensor cores (Dao 2023): a block has a tile of keys and values of one group and goes through the tiles
// of queries that see them, head after head, the next of which is copied meanwhile. Scores are computed transposed,
// keys by queries, so that probabilities and dS multiply dout and q out of registers. Sums have a fixed order.
// Predicted: bound by mma.sync, four products of B H T^2 D / 2 multiply-adds.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention_gradients.h"

namespace mtl::cuda {

namespace {

/// A warp has 16 keys. A stage holds queries, their dout, and three numbers of each: logsumexp, delta, document start.
template <int dim>
struct DkDvTile {
  static constexpr int kWarps = 4, kKeys = 16 * kWarps, kQueries = 32;
  static constexpr int kHeld = kKeys * kTileRow<dim>, kStage = 2 * kQueries * kTileRow<dim>;  // elements
  static constexpr std::size_t kBytes = (2 * kHeld + 2 * kStage) * 2 + 2 * 3 * kQueries * sizeof(float);
  static_assert(kBytes <= 99 << 10 && kQueries == int{kWarp});
};

struct QueryStatistics {
  float logsumexp[kWarp], delta[kWarp];
  std::int32_t document_start[kWarp];
};

/// Queries [begin, end) of a sequence see some of the keys [key, key + count).
struct SeeingQueries {
  int begin, end;
  __device__ SeeingQueries(const AttentionShape& shape, int key, int count) : begin(key), end(shape.queries) {
    const int last = key + count - 1;
    if (shape.window > 0 && shape.window < end - last) end = last + static_cast<int>(shape.window);
  }
};

/// Those that the documents of sequence b leave, up to the last one. The whole block asks, before it uses its shared
/// memory.
__device__ inline void leave_documents(SeeingQueries& queries, const AttentionShape& shape, int b, int last_key) {
  int last = queries.begin;
  for (int t = queries.begin + static_cast<int>(threadIdx.x); t < queries.end; t += static_cast<int>(blockDim.x))
    if (shape.document_start[std::int64_t{b} * shape.queries + t] <= last_key) last = t;
  last = block_reduce(last, queries.begin, shared_memory<int>(), [](int x, int y) { return x > y ? x : y; });
  queries.end = last + 1;
}

/// Which elements of fragments of 16 keys by 32 queries are kept: bit 4 j + i is element i of columns 8 j. A lane draws
/// what it holds of the fragment of queries by keys, and lanes exchange words.
__device__ inline unsigned kept_elements(const ProbabilityDropout& dropout, int b, int head, int query, int key) {
  const unsigned g = lane() / 4, q = lane() % 4;
  unsigned kept = 0;
#pragma unroll
  for (int part = 0; part < 2; ++part) {  // 16 queries each
    const auto words = dropout.draw(b, head, query / 16 + part, key / 32, lane());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t own = key % 32 == 0 ? words[i / 2] : words[2 + i / 2];
      const std::uint32_t word = __shfl_sync(kAllLanes, own, static_cast<int>(4 * (2 * q + i % 2) + g / 2));
#pragma unroll
      for (int upper = 0; upper < 2; ++upper)
        if ((word >> (8 * (2 * upper + g % 2)) & 255) >= dropout.threshold) kept |= 1u << (4 * (2 * part + upper) + i);
    }
  }
  return kept;
}

/// Scores and dP, transposed, become dropout(P) and dS.
__device__ inline void differentiate_transposed(Sums<4>& scores, Sums<4>& dp, const QueryStatistics& statistics,
                                                const AttentionShape& shape, int query, int key, unsigned kept,
                                                bool masked) {
  const int g = static_cast<int>(lane()) / 4, q = static_cast<int>(lane()) % 4;
  const float scale_log2 = shape.scale * kLog2E;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * j + 2 * q + i % 2, t = query + column, s = key + g + 8 * (i / 2);
      bool seen = true;
      if (masked) {
        seen = t < shape.queries && s <= t && (shape.window == 0 || t - s < shape.window);
        if (shape.document_start != nullptr) seen = seen && statistics.document_start[column] <= s;
      }
      const float factor = (kept >> (4 * j + i) & 1) != 0 ? shape.dropout.scale : 0;
      const float p = seen ? exp2_approx(scores.v[j][i] * scale_log2 - statistics.logsumexp[column] * kLog2E) : 0;
      scores.v[j][i] = p * factor;
      dp.v[j][i] = p * (dp.v[j][i] * factor - statistics.delta[column]);
    }
  }
}

template <class T, int dim>
__global__ void __launch_bounds__(DkDvTile<dim>::kWarps* kWarp, 2)
    write_dk_dv_tiles(const __grid_constant__ TiledBackward<T> f) {
  using Tile = DkDvTile<dim>;
  const AttentionShape& shape = f.shape;
  const int item = static_cast<int>(blockIdx.x), first_key = item % f.tiles * Tile::kKeys;  // the longest first
  const int g = item / f.tiles % shape.groups, b = item / f.tiles / shape.groups;
  const int warp_row = static_cast<int>(warp_in_block()) * 16, own_key = first_key + warp_row;
  T *keys = shared_memory<T>(), *values = keys + Tile::kHeld, *stages = values + Tile::kHeld;
  auto* statistics = reinterpret_cast<QueryStatistics*>(stages + 2 * Tile::kStage);
  const SeeingQueries own(shape, own_key, 16);
  SeeingQueries queries(shape, first_key, Tile::kKeys);
  if (shape.document_start != nullptr) leave_documents(queries, shape, b, first_key + Tile::kKeys - 1);
  const int steps = (queries.end - queries.begin + Tile::kQueries - 1) / Tile::kQueries;
  const auto load = [&](int step, int stage) {
    const int h = step / steps, query = queries.begin + step % steps * Tile::kQueries;
    T* tile = stages + stage * Tile::kStage;
    const KeyRange inside{queries.begin, shape.queries};
    load_tile<Tile::kQueries, dim>(tile, f.q.at(b, g, h, 0), f.q.position, query, inside);
    load_tile<Tile::kQueries, dim>(tile + Tile::kStage / 2, f.dout.at(b, g, h, 0), f.dout.position, query, inside);
    if (warp_in_block() == 0) {
      const int i = static_cast<int>(lane()), t = query + i;
      const bool exists = t < shape.queries;
      const std::int64_t row =
          exists ? (std::int64_t{b} * shape.groups * shape.heads + g * shape.heads + h) * shape.queries + t : 0;
      cp_async_4(&statistics[stage].logsumexp[i], f.logsumexp + row, exists);
      cp_async_4(&statistics[stage].delta[i], f.delta + row, exists);
      if (shape.document_start != nullptr)
        cp_async_4(&statistics[stage].document_start[i],
                   shape.document_start + (exists ? std::int64_t{b} * shape.queries + t : 0), exists);
    }
    cp_async_commit();
  };
  load_tile<Tile::kKeys, dim>(keys, f.k.at(b, g, 0, 0), f.k.position, first_key, {first_key, shape.keys});
  load_tile<Tile::kKeys, dim>(values, f.v.at(b, g, 0, 0), f.v.position, first_key, {first_key, shape.keys});
  load(0, 0);
  Sums<dim / 8> dk, dv;
  for (int step = 0, stage = 0; step < steps * shape.heads; ++step, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // the tile is there, and the other stage has been read
    if (step + 1 < steps * shape.heads) load(step + 1, stage ^ 1);
    const int query = queries.begin + step % steps * Tile::kQueries, last = query + Tile::kQueries - 1;
    if (own_key >= shape.keys || last < own_key || query >= own.end) continue;
    const QueryStatistics& of_queries = statistics[stage];
    const bool documents = shape.document_start != nullptr;
    if (documents && !__any_sync(kAllLanes, of_queries.document_start[lane()] < own_key + 16)) continue;
    const T *tile = stages + stage * Tile::kStage, *douts = tile + Tile::kStage / 2;
    Sums<Tile::kQueries / 8> scores, dp;
    multiply_rows<T, dim>(scores, keys, warp_row, tile);
    multiply_rows<T, dim>(dp, values, warp_row, douts);
    const bool masked = documents || own_key + 15 > query || last >= shape.queries ||
                        (shape.window > 0 && last - own_key >= shape.window);
    unsigned kept = ~0u;
    if (shape.dropout.active) kept = kept_elements(shape.dropout, b, g * shape.heads + step / steps, query, own_key);
    differentiate_transposed(scores, dp, of_queries, shape, query, own_key, kept, masked);
    add_products<T, dim>(dv, scores, douts);
    add_products<T, dim>(dk, dp, tile);
  }
  const int count = shape.keys - own_key;
  T* staged = keys + warp_row * kTileRow<dim>;
  store_sums<dim>(f.dk.at(b, g, 0, own_key), f.dk.position, count, staged, dk, shape.scale, shape.scale);
  store_sums<dim>(f.dv.at(b, g, 0, own_key), f.dv.position, count, staged, dv, 1, 1);
}

}  // namespace

void attention_dk_dv_tiles(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                           const AttentionInput& in) {
  with_tiles(out.dtype(), in.sizes().dim, [&]<class T, int dim>(T, std::integral_constant<int, dim>) {
    using Tile = DkDvTile<dim>;
    const TiledBackward<T> f(in, grads, dout, out, logsumexp, delta, Tile::kKeys);
    const auto blocks = static_cast<unsigned>(std::int64_t{f.tiles} * f.shape.batch * f.shape.groups);
    launch(stream, write_dk_dv_tiles<T, dim>, {blocks, Tile::kWarps * kWarp, Tile::kBytes}, f);
  });
}

}  // namespace mtl::cuda
