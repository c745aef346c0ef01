// out = residual + dropout(branch + bias). A team of threads shares a row (kernels/cuda/rows.h). Forward and backward
// each make one pass over memory:
//   forward   branch, residual and out      3 N C elements
//   backward  dout and dbranch              2 N C elements, or dout alone for dbias alone; dbias in the same pass
// The mask is never stored: backward draws it again. Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/residual_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

namespace {

template <int n, int packs, class S, class T>
__global__ void add_branch(const __grid_constant__ SummedRows<S, T> sum, std::int64_t rows, Team team) {
  team.over_rows(rows, sum.width, [&](std::int64_t row, int width) {
    KeptRow<n, packs> out;
    keep_row(out, sum, row, width, team);
  });
}

/// `dbranch` and `partials` are null if dbranch or dbias is not wanted.
template <class S, class T>
struct ResidualBackward {
  T* dbranch;
  float* partials;
  const S* dout;
  HiddenMask hidden;
  std::int64_t rows;
  int width;
};

/// Writes a row of dbranch. Unless `sums` (C) is null, adds the row to `sums`. A thread handles the same columns in
/// every row.
template <int n, class S, class T>
__device__ void pass_row(const ResidualBackward<S, T>& b, std::int64_t row, int width, const Team& team, float* sums) {
  constexpr int kAhead = 4;  // loads in flight: few warps share a multiprocessor
  const int stride = team.size * n;
  const RowMask mask(b.hidden, width > 0 ? row : 0);
  const std::int64_t begin = row * b.width;
  for (int first = team.thread() * n; first < width; first += kAhead * stride) {
    Pack<n> dout[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k * stride < width) dout[k] = load<n>(b.dout + begin + first + k * stride);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int i = first + k * stride;
      if (i >= width) break;
      const Pack<n> factors = mask.factors<n>(i);
      for (int j = 0; j < n; ++j) dout[k][j] *= factors[j];
      if (b.dbranch != nullptr) store(b.dbranch + begin + i, dout[k]);
      if (sums == nullptr) continue;
      Pack<n> sum = load<n>(sums + i);
      for (int j = 0; j < n; ++j) sum[j] += dout[k][j];
      store(sums + i, sum);
    }
  }
}

template <int n, class S, class T>
__global__ void residual_backward_rows(const __grid_constant__ ResidualBackward<S, T> b, Team team) {
  const int sums = b.partials == nullptr ? 0 : b.width;
  team.clear_sums<n>(sums, b.width);
  team.over_rows(b.rows, b.width, [&](std::int64_t row, int width) {
    pass_row<n>(b, row, width, team, sums > 0 ? team.own_sums(sums) : nullptr);
  });
  if (sums > 0) team.write_sums(b.partials, sums);
}

}  // namespace

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  const std::int64_t rows = out.row_count(), width = out.size(-1);
  const RowsShape shape = rows_shape(rows, width);
  with_stream_types(out.dtype(), sum.branch.dtype(), [&]<class S, class T>(S, T) {
    with_row_packs<4, 8>(width, shape.team, {out, sum.residual, sum.branch, sum.bias},
                         [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
                           launch(stream, add_branch<n, packs, S, T>, shape.launch, SummedRows<S, T>(out, sum), rows,
                                  Team{shape.team});
                         });
  });
}

void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  const std::int64_t count = dout.row_count(), width = dout.size(-1);
  const RowsShape shape = rows_shape(count, width, dbias.wanted() ? width : 0);
  with_stream_types(dout.dtype(), (dbranch.exists() ? dbranch : dout).dtype(), [&]<class S, class T>(S, T) {
    const ResidualBackward<S, T> operands{.dbranch = dbranch.exists() ? dbranch.data<T>() : nullptr,
                                          .partials = dbias.wanted() ? static_cast<float*>(work.raw()) : nullptr,
                                          .dout = dout.data<S>(),
                                          .hidden = HiddenMask(dropout, rows, width),
                                          .rows = count,
                                          .width = static_cast<int>(width)};
    with_pack_size(width, {dbranch, dout}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, residual_backward_rows<n, S, T>, shape.launch, operands, Team{shape.team});
    });
  });
  if (dbias.wanted())
    sum_partials(stream, dbias, static_cast<const float*>(work.raw()), static_cast<int>(shape.launch.blocks.x),
                 static_cast<int>(width));
}

std::size_t row_sums_work(const Stream&, std::int64_t rows, std::int64_t width, std::int64_t sums) {
  return std::size_t{rows_shape(rows, width, sums).launch.blocks.x} * sums * sizeof(float);
}

}  // namespace mtl::cuda
