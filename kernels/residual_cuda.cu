// out = residual + dropout(branch + bias). A team of threads shares a row (kernels/cuda/rows.h). Forward and backward
// each make one pass over memory:
//   forward   branch, residual and out      3 N C elements
//   backward  dout and dbranch              2 N C elements, or dout alone for dbias alone; dbias in the same pass
// The mask is never stored: backward draws it again. Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"
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

template <int n, int packs, class S, class T>
__global__ void residual_backward_rows(const __grid_constant__ ResidualBackward<S, T> b, Team team) {
  ColumnSums<n, packs, 1> sums(team, b.partials, b.width);
  team.over_rows(b.rows, b.width, [&](std::int64_t row, int width) {
    const RowMask mask(b.hidden, width > 0 ? row : 0);
    const std::int64_t begin = row * b.width;
    KeptRow<n, packs> dout;
    team.over_row<n, packs>(width, [&](int k, int i) { dout.keep(k, b.dout + begin + i); });
    team.over_row<n, packs>(width, [&](int k, int i) {
      Pack<n> out = dout.get(k, b.dout + begin + i);
      const Pack<n> factors = mask.factors<n>(i);
      for (int j = 0; j < n; ++j) out[j] *= factors[j];
      if (b.dbranch != nullptr) store(b.dbranch + begin + i, out);
      sums.add(0, k, i, out);
    });
  });
  sums.write();
}

}  // namespace

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  const std::int64_t rows = out.row_count(), width = out.size(-1);
  const RowsShape shape = rows_shape(rows, width, 1024);
  with_stream_types(out.dtype(), sum.branch.dtype(), [&]<class S, class T>(S, T) {
    with_row_packs<4>(width, shape.team, {out, sum.residual, sum.branch, sum.bias},
                      [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
                        launch(stream, add_branch<n, packs, S, T>, shape.launch, SummedRows<S, T>(out, sum), rows,
                               Team{shape.team});
                      });
  });
}

void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  const std::int64_t count = dout.row_count(), width = dout.size(-1);
  auto* partials = static_cast<float*>(work.raw());
  int blocks = 0;
  with_stream_types(dout.dtype(), (dbranch.exists() ? dbranch : dout).dtype(), [&]<class S, class T>(S, T) {
    const ResidualBackward<S, T> operands{.dbranch = dbranch.exists() ? dbranch.data<T>() : nullptr,
                                          .partials = partials,
                                          .dout = dout.data<S>(),
                                          .hidden = HiddenMask(dropout, rows, width),
                                          .rows = count,
                                          .width = static_cast<int>(width)};
    with_row_packs<1, 2, 3, 4>(
        width, sums_team(width), {dbranch, dout},
        [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
          blocks = launch_sums(stream, residual_backward_rows<n, packs, S, T>,
                               sums_shape(count, width, partials == nullptr ? 0 : width, packs), operands);
        });
  });
  if (partials != nullptr) sum_partials(stream, dbias, partials, blocks, static_cast<int>(width));
}

std::size_t row_sums_work(const Stream&, std::int64_t rows, std::int64_t, std::int64_t sums) {
  return std::size_t(std::min<std::int64_t>(rows, kMostPartials)) * sums * sizeof(float);
}

}  // namespace mtl::cuda
