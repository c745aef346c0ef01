// Scatter-adds into table rows, without atomics. The places are sorted by row, so that all places for a row form a run.
// Each run is cut into chunks of 32, starting at its first place. A warp sums up to 256 columns of a chunk in place
// order. If a run has only one chunk, the warp adds its sum to the table. If a run has more, the warps write their
// chunk sums to scratch memory, and a second kernel adds them in order. A row's sum therefore depends only on the row's
// places, not on other rows or on how the vocabulary is sharded.
//
// Memory traffic:
// - the N C elements of dout once (with dropout, dx twice)
// - the gradient once, to clear it, and each of its rows that has places once, if it is overwritten; otherwise only the
//   rows that have places, twice
// - each fp32 chunk sum twice, if the run has more than one chunk
//
// Predicted to be memory-bound. A run of 4000 places needs 125 sequential additions, about 10 us.
#include "kernels/cuda.h"
#include "kernels/cuda/any_array.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/warp.h"
#include "kernels/embedding_cuda.h"

namespace mtl::cuda {

namespace {

constexpr int kChunk = kWarp;  // a lane fetches the key of each place
constexpr unsigned kWarpsInBlock = 4;

/// A scatter-add's sorted places, the gradient (table_rows, width), and the chunk sums.
struct Scatter {
  const std::uint64_t* sorted;
  std::int64_t count, table_rows;
  AnyArray table;
  bool accumulate;
  float* partials;
  int width;
};

/// Returns the row at sorted place n, or -1 if there is no such place.
__device__ inline std::int64_t row_at(const Scatter& s, std::int64_t n) {
  return n >= 0 && n < s.count ? row_of(s.sorted[n]) : -1;
}

/// Returns the first sorted place in [low, high) whose row is at least `row`, or `high` if there is none.
__device__ inline std::int64_t first_of(const Scatter& s, std::int64_t row, std::int64_t low, std::int64_t high) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (row_of(s.sorted[middle]) < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// True if a chunk starts at sorted place n, which must belong to the run for `row`.
__device__ inline bool begins_chunk(const Scatter& s, std::int64_t row, std::int64_t n) {
  if (row_at(s, n - 1) != row) return true;
  if (row_at(s, n - kChunk) != row) return false;  // the run starts less than a chunk before
  return (n - first_of(s, row, 0, n)) % kChunk == 0;
}

/// Returns the slot for a chunk's sum. The chunk starts at sorted place n. Two slots are enough per group of kChunk
/// sorted places. Among the chunks that start in the group and need a slot, at most one is followed by another chunk in
/// the same run, and at most one is the last in its run.
__device__ inline float* slot_of(const Scatter& s, std::int64_t n, bool is_last) {
  return s.partials + (n / kChunk * 2 + (is_last ? 0 : 1)) * s.width;
}

template <int n>
__device__ void add_to_table(const Scatter& s, std::int64_t row, int column, const Pack<n>& sum) {
  const std::int64_t at = row * s.width + column;
  Pack<n> out = s.accumulate ? load<n>(s.table, at) : Pack<n>{};
  for (int j = 0; j < n; ++j) out[j] += sum[j];
  store(s.table, at, out);
}

template <int n>
__device__ int own_column() {
  return static_cast<int>(blockIdx.y * kWarp + lane()) * n;
}

/// Sums the first `places` places in a chunk. Lane i holds place i. With dropout, also masks these rows in dout.
template <int n, class D>
__device__ Pack<n> sum_places(D* dout, const HiddenMask& hidden, std::uint32_t own_place, int places, int width) {
  constexpr int kAhead = 4;  // loads in flight
  const int column = own_column<n>();
  Pack<n> sum{};
  for (int first = 0; first < places; first += kAhead) {
    const int left = column < width ? places - first : 0;
    std::int64_t place[kAhead];
    Pack<n> in[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      place[k] = __shfl_sync(kAllLanes, own_place, first + k);
      if (k < left) in[k] = load<n>(dout + place[k] * width + column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (k >= left) break;
      if (hidden.samples != nullptr) {
        const Pack<n> factors = RowMask(hidden, place[k]).template factors<n>(column);
        for (int j = 0; j < n; ++j) in[k][j] *= factors[j];
        store(dout + place[k] * width + column, in[k]);
      }
      for (int j = 0; j < n; ++j) sum[j] += in[k][j];
    }
  }
  return sum;
}

/// One warp per sorted place and 32 n columns. The warp returns if no chunk starts at its place.
template <int n, class D>
__global__ void sum_chunks(D* dout, const __grid_constant__ Scatter s, const __grid_constant__ HiddenMask hidden) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kWarpsInBlock + warp_in_block();
  if (at >= s.count) return;
  const std::int64_t row = row_of(s.sorted[at]);
  const bool in_table = row < s.table_rows;
  if (!in_table && hidden.samples == nullptr) return;  // with dropout, each place must be masked
  if (!begins_chunk(s, row, at)) return;
  const std::uint64_t key = at + lane() < s.count ? s.sorted[at + lane()] : ~std::uint64_t{0};
  const int places = warp_sum(row_of(key) == row ? 1 : 0);
  const Pack<n> sum = sum_places<n>(dout, hidden, place_of(key), places, s.width);
  const int column = own_column<n>();
  if (column >= s.width || !in_table) return;
  const bool is_last = row_at(s, at + kChunk) != row;
  if (is_last && row_at(s, at - 1) != row)
    add_to_table(s, row, column, sum);
  else
    store(slot_of(s, at, is_last) + column, sum);
}

/// One warp per kChunk sorted places and 32 n columns. At most one run with multiple chunks starts there.
template <int n>
__global__ void add_chunks(const __grid_constant__ Scatter s) {
  const std::int64_t own = (std::int64_t{blockIdx.x} * kWarpsInBlock + warp_in_block()) * kChunk + lane();
  const std::int64_t row = row_at(s, own);
  const bool begins = row >= 0 && row < s.table_rows && row_at(s, own - 1) != row && row_at(s, own + kChunk) == row;
  const int from = warp_reduce(begins ? lane() : -1, [](int a, int b) { return a > b ? a : b; });
  const int column = own_column<n>();
  if (from < 0 || column >= s.width) return;
  const std::int64_t begin = own - lane() + from, of_run = row_at(s, begin);
  const std::int64_t last = (first_of(s, of_run + 1, begin, s.count) - begin - 1) / kChunk;
  Pack<n> sum{};
#pragma unroll 8
  for (std::int64_t i = 0; i < last; ++i) {
    const Pack<n> more = load<n>(slot_of(s, begin + i * kChunk, false) + column);
    for (int j = 0; j < n; ++j) sum[j] += more[j];
  }
  const Pack<n> more = load<n>(slot_of(s, begin + last * kChunk, true) + column);
  for (int j = 0; j < n; ++j) sum[j] += more[j];
  add_to_table(s, of_run, column, sum);
}

std::int64_t chunks_in(std::int64_t places) { return (places + kChunk - 1) / kChunk; }

unsigned blocks_of(std::int64_t warps) { return static_cast<unsigned>((warps + kWarpsInBlock - 1) / kWarpsInBlock); }

/// Adds row n of dout to table row rows[n] - first. With dropout, masks dout in place.
void scatter_add(Stream& stream, const Tensor& work, const Grad& dtable, const Tensor& dout, const std::int32_t* rows,
                 std::int64_t first, const HiddenMask& hidden) {
  const Tensor& table = dtable.tensor;
  const std::int64_t count = dout.size(0), table_rows = table.size(0), width = table.size(1);
  if (dtable.mode == GradMode::overwrite) cuda::fill_zero(stream, table);
  auto* bytes = static_cast<std::byte*>(work.raw());
  const Scatter scatter{.sorted = sort_places(stream, bytes, rows, first, table_rows, count),
                        .count = count,
                        .table_rows = table_rows,
                        .table = AnyArray(table),
                        .accumulate = dtable.mode == GradMode::accumulate,
                        .partials = reinterpret_cast<float*>(bytes + sort_work(count)),
                        .width = static_cast<int>(width)};
  with_pack_size(width, {table, dout}, [&]<int n>(std::integral_constant<int, n>) {
    const auto tiles = static_cast<unsigned>((width + kWarp * n - 1) / (kWarp * n));
    with_float_type(dout.dtype(), [&]<class D>(D) {
      launch(stream, sum_chunks<n, D>, {{blocks_of(count), tiles}, kWarpsInBlock * kWarp}, dout.data<D>(), scatter,
             hidden);
    });
    if (count <= kChunk) return;
    launch(stream, add_chunks<n>, {{blocks_of(chunks_in(count)), tiles}, kWarpsInBlock * kWarp}, scatter);
  });
}

}  // namespace

void embedding_backward(Stream& stream, Tensor work, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin) {
  scatter_add(stream, work, dtable, dout, tokens.data<std::int32_t>(), vocab_begin, HiddenMask({}, {}, dout.size(1)));
}

void positions_backward(Stream& stream, Tensor work, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  // Without a table, forward only multiplies by the mask, as backward must.
  if (!dtable.wanted()) return cuda::positions_forward(stream, dx, positions, {}, dropout, rows);
  scatter_add(stream, work, dtable, dx, positions.data<std::int32_t>() + rows.first_row, 0,
              HiddenMask(dropout, rows, dx.size(1)));
}

std::size_t scatter_work(const Stream&, Tensor dtable, std::int64_t places) {
  const std::int64_t sums = places > kChunk ? 2 * chunks_in(places) * dtable.size(1) : 0;
  return sort_work(places) + sums * sizeof(float);
}

}  // namespace mtl::cuda
