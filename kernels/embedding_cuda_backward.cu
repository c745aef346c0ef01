// Scatter-adds into table rows, without atomics. The places are sorted by row, so that all places for a row form a run.
// Each run is cut into chunks of 32, starting at its first place. A warp sums up to 256 columns of a chunk in place
// order. If a run has only one chunk, the warp adds its sum to the table. If a run has more, the warps write their
// chunk sums to scratch memory, and a second kernel adds them in order. A row's sum therefore depends only on the row's
// places, not on other rows or on how the vocabulary is sharded.
//
// Positions that are those of the row map need no sort: position p has one place in each sequence, in whose order a
// warp sums them, in the same groups of 32.
//
// Memory traffic:
// - the N C elements of dout once (with dropout, dx twice)
// - the gradient once, to clear it, and each of its rows that has places once, if it is overwritten; otherwise only the
//   rows that have places, twice
// - each fp32 chunk sum twice, if the run has more than one chunk
// Without a sort, no pass clears the gradient, and no chunk sums go to memory.
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

/// The gradient (rows, width) of a table.
struct TableGrad {
  AnyArray grad;
  bool accumulate;
  std::int64_t rows;
  int width;

  explicit TableGrad(const Grad& of)
      : grad(of.tensor),
        accumulate(of.mode == GradMode::accumulate),
        rows(of.tensor.size(0)),
        width(static_cast<int>(of.tensor.size(1))) {}
};

/// A scatter-add's sorted places, the gradient, and the chunk sums.
struct Scatter {
  const std::uint64_t* sorted;
  std::int64_t count;
  TableGrad table;
  float* partials;
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
  return s.partials + (n / kChunk * 2 + (is_last ? 0 : 1)) * s.table.width;
}

template <int n>
__device__ void add_to_table(const TableGrad& table, std::int64_t row, int column, const Pack<n>& sum) {
  const std::int64_t at = row * table.width + column;
  Pack<n> out = table.accumulate ? load<n>(table.grad, at) : Pack<n>{};
  for (int j = 0; j < n; ++j) out[j] += sum[j];
  store(table.grad, at, out);
}

template <int n>
__device__ int own_column() {
  return static_cast<int>(blockIdx.y * kWarp + lane()) * n;
}

/// Sums places place_at(0) .. place_at(places - 1), which the whole warp calls. With dropout, also masks these rows in
/// dout.
template <int n, class D, class PlaceAt>
__device__ Pack<n> sum_places(D* dout, const HiddenMask& hidden, int places, int width, const PlaceAt& place_at) {
  constexpr int kAhead = 4;  // loads in flight
  const int column = own_column<n>();
  Pack<n> sum{};
  for (int first = 0; first < places; first += kAhead) {
    const int left = column < width ? places - first : 0;
    std::int64_t place[kAhead];
    Pack<n> in[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      place[k] = place_at(first + k);
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
  const bool in_table = row < s.table.rows;
  if (!in_table && hidden.samples == nullptr) return;  // with dropout, each place must be masked
  if (!begins_chunk(s, row, at)) return;
  const std::uint64_t key = at + lane() < s.count ? s.sorted[at + lane()] : ~std::uint64_t{0};
  const int places = warp_sum(row_of(key) == row ? 1 : 0);
  const Pack<n> sum = sum_places<n>(dout, hidden, places, s.table.width, [place = place_of(key)](int i) {
    return std::int64_t{__shfl_sync(kAllLanes, place, i)};
  });
  const int column = own_column<n>();
  if (column >= s.table.width || !in_table) return;
  const bool is_last = row_at(s, at + kChunk) != row;
  if (is_last && row_at(s, at - 1) != row)
    add_to_table(s.table, row, column, sum);
  else
    store(slot_of(s, at, is_last) + column, sum);
}

/// One warp per kChunk sorted places and 32 n columns. At most one run with multiple chunks starts there.
template <int n>
__global__ void add_chunks(const __grid_constant__ Scatter s) {
  const std::int64_t own = (std::int64_t{blockIdx.x} * kWarpsInBlock + warp_in_block()) * kChunk + lane();
  const std::int64_t row = row_at(s, own);
  const bool begins = row >= 0 && row < s.table.rows && row_at(s, own - 1) != row && row_at(s, own + kChunk) == row;
  const int from = warp_reduce(begins ? lane() : -1, [](int a, int b) { return a > b ? a : b; });
  const int column = own_column<n>();
  if (from < 0 || column >= s.table.width) return;
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
  add_to_table(s.table, of_run, column, sum);
}

/// One warp per row of the table and 32 n columns, for positions that are those of the row map, which `rows` has. Also
/// writes rows without places, unless it accumulates.
template <int n, class D>
__global__ void sum_sequences(D* dout, const __grid_constant__ HiddenMask rows, const __grid_constant__ TableGrad table,
                              std::int64_t count) {
  const std::int64_t position = std::int64_t{blockIdx.x} * kWarpsInBlock + warp_in_block();
  if (position >= table.rows) return;
  const std::int64_t held = rows.rows_per_sequence, row = rows.part.rows_before(position, held);
  const bool is_held = row < held && rows.part.position(row, held) == position;
  const std::int64_t before = rows.first_row - row + held - 1;  // not negative
  const std::int64_t first = is_held ? before / held : 0, end = is_held ? (before + count) / held : 0;
  Pack<n> sum{};
  for (std::int64_t sequence = first; sequence < end; sequence += kChunk) {
    const int places = static_cast<int>(end - sequence < kChunk ? end - sequence : kChunk);
    const Pack<n> more = sum_places<n>(dout, rows, places, table.width,
                                       [&](int i) { return (sequence + i) * held + row - rows.first_row; });
    for (int j = 0; j < n; ++j) sum[j] += more[j];
  }
  const int column = own_column<n>();
  if (column >= table.width || (first == end && table.accumulate)) return;
  add_to_table(table, position, column, sum);
}

std::int64_t chunks_in(std::int64_t places) { return (places + kChunk - 1) / kChunk; }

/// Returns a launch with this many warps for each 32 n columns of the table.
template <int n>
LaunchShape warps_shape(std::int64_t warps, const Tensor& table) {
  const auto blocks = static_cast<unsigned>((warps + kWarpsInBlock - 1) / kWarpsInBlock);
  return {{blocks, static_cast<unsigned>((table.size(1) + kWarp * n - 1) / (kWarp * n))}, kWarpsInBlock * kWarp};
}

/// Adds row n of dout to table row rows[n] - first. With dropout, masks dout in place.
void scatter_add(Stream& stream, const Tensor& work, const Grad& dtable, const Tensor& dout, const std::int32_t* rows,
                 std::int64_t first, const HiddenMask& hidden) {
  const Tensor& table = dtable.tensor;
  const std::int64_t count = dout.size(0);
  if (dtable.mode == GradMode::overwrite) cuda::fill_zero(stream, table);
  auto* bytes = static_cast<std::byte*>(work.raw());
  const Scatter scatter{.sorted = sort_places(stream, bytes, rows, first, table.size(0), count),
                        .count = count,
                        .table = TableGrad(dtable),
                        .partials = reinterpret_cast<float*>(bytes + sort_work(count))};
  with_pack_size(table.size(1), {table, dout}, [&]<int n>(std::integral_constant<int, n>) {
    with_float_type(dout.dtype(), [&]<class D>(D) {
      launch(stream, sum_chunks<n, D>, warps_shape<n>(count, table), dout.data<D>(), scatter, hidden);
    });
    if (count <= kChunk) return;
    launch(stream, add_chunks<n>, warps_shape<n>(chunks_in(count), table), scatter);
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
  const HiddenMask hidden(dropout, rows, dx.size(1));
  if (rows.resets_positions)
    return scatter_add(stream, work, dtable, dx, positions.data<std::int32_t>() + rows.first_row, 0, hidden);
  with_pack_size(dx.size(1), {dtable.tensor, dx}, [&]<int n>(std::integral_constant<int, n>) {
    with_float_type(dx.dtype(), [&]<class D>(D) {
      launch(stream, sum_sequences<n, D>, warps_shape<n>(dtable.tensor.size(0), dtable.tensor), dx.data<D>(), hidden,
             TableGrad(dtable), dx.size(0));
    });
  });
}

std::size_t scatter_work(const Stream&, Tensor dtable, std::int64_t places) {
  const std::int64_t sums = places > kChunk ? 2 * chunks_in(places) * dtable.size(1) : 0;
  return sort_work(places) + sums * sizeof(float);
}

std::size_t positions_work(const Stream& stream, Tensor dtable, std::int64_t places, const RowMap& rows) {
  return rows.resets_positions ? cuda::scatter_work(stream, dtable, places) : 0;
}

}  // namespace mtl::cuda
