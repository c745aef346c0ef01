// Forward, out[n] = table[tokens[n]]. One warp per row. Predicted to be memory-bound:
//   tokens     rows of the table and out           2 N C elements
//   positions  x, twice, and rows of the table     3 N C elements; repeated rows of the table are cached
#include "kernels/cuda.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr unsigned kRowsInBlock = 4;

LaunchShape shape_of(std::int64_t rows) {
  return {static_cast<unsigned>((rows + kRowsInBlock - 1) / kRowsInBlock), kRowsInBlock * kWarp};
}

/// A table that has the rows [first, first + table_rows). Place n reads row rows[n] - first.
template <class T>
struct Lookup {
  const T* table;  // null if absent
  const std::int32_t* rows;
  std::int64_t first, table_rows;
  int width;

  /// Returns null if the table does not have the row.
  __device__ const T* operator()(std::int64_t place) const {
    if (table == nullptr) return nullptr;
    const std::int64_t row = rows[place] - first;
    return row >= 0 && row < table_rows ? table + row * width : nullptr;
  }
};

template <int n, class S, class T>
__global__ void look_up(S* out, Lookup<T> lookup, std::int64_t places) {
  const std::int64_t place = std::int64_t{blockIdx.x} * kRowsInBlock + warp_in_block();
  if (place >= places) return;
  const T* from = lookup(place);
  S* to = out + place * lookup.width;
  over_row<n>(lookup.width, [&](int i) { store(to + i, from == nullptr ? Pack<n>{} : load<n>(from + i)); });
}

template <int n, class S, class T>
__global__ void add_positions(S* x, Lookup<T> lookup, const __grid_constant__ HiddenMask hidden, std::int64_t places) {
  const std::int64_t place = std::int64_t{blockIdx.x} * kRowsInBlock + warp_in_block();
  if (place >= places) return;
  const RowMask mask(hidden, place);
  const T* from = lookup(place);
  S* to = x + place * lookup.width;
  over_row<n>(lookup.width, [&](int i) {
    Pack<n> sum = load<n>(to + i);
    const Pack<n> position = from == nullptr ? Pack<n>{} : load<n>(from + i), factors = mask.factors<n>(i);
    for (int j = 0; j < n; ++j) sum[j] = (sum[j] + position[j]) * factors[j];
    store(to + i, sum);
  });
}

}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  const auto width = static_cast<int>(out.size(1));
  with_stream_types(out.dtype(), table.dtype(), [&]<class S, class T>(S, T) {
    const Lookup<T> lookup{table.data<T>(), tokens.data<std::int32_t>(), vocab_begin, table.size(0), width};
    with_pack_size(width, {out, table}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, look_up<n, S, T>, shape_of(out.size(0)), out.data<S>(), lookup, out.size(0));
    });
  });
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  const auto width = static_cast<int>(x.size(1));
  const bool adds = table.exists();
  with_stream_types(x.dtype(), adds ? table.dtype() : x.dtype(), [&]<class S, class T>(S, T) {
    const Lookup<T> lookup{adds ? table.data<T>() : nullptr, positions.data<std::int32_t>() + rows.first_row, 0,
                           adds ? table.size(0) : 0, width};
    with_pack_size(width, {x, table}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, add_positions<n, S, T>, shape_of(x.size(0)), x.data<S>(), lookup, HiddenMask(dropout, rows, width),
             x.size(0));
    });
  });
}

}  // namespace mtl::cuda
