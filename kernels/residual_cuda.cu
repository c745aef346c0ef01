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

template <class Kind, class S, class T, bool drops>
__global__ void __launch_bounds__(Kind::most_threads)
    add_branch(const __grid_constant__ SummedRows<S, T, drops> sum, std::int64_t rows) {
  const Team<Kind> team(sum.width);
  const std::int64_t row = team.first_row();
  if (row >= rows) return;
  KeptRow<Kind, S> out;
  keep_row(out, sum, row, team);
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

template <class Kind, bool drops, class S, class T>
__global__ void __launch_bounds__(kMostSumThreads<Kind>)
    residual_backward_rows(const __grid_constant__ ResidualBackward<S, T> b) {
  constexpr int n = Kind::n;
  const Team<Kind> team(b.width);
  ColumnSums<Kind, 1> sums(team, b.partials, b.width);
  for (std::int64_t row = team.first_row(); row < b.rows; row += team.all_teams()) {
    const RowMask mask(b.hidden, drops ? row : 0);
    const std::int64_t begin = row * b.width;
    KeptRow<Kind, S> dout;
    team.over_row([&](int k, int i, bool) { dout.keep(k, b.dout + begin + i); });
    team.over_row([&](int k, int i, bool holds) {
      Pack<n> out = dout.get(k, b.dout + begin + i).widened();
      if constexpr (drops) {
        const Pack<n> factors = mask.template factors<n>(i);
        for (int j = 0; j < n; ++j) out[j] *= factors[j];
      }
      if (b.dbranch != nullptr && holds) store(b.dbranch + begin + i, out);
      sums.add(0, k, i, out);
    });
  }
  sums.write();
}

}  // namespace

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  const std::int64_t rows = out.row_count(), width = out.size(-1);
  with_stream_types(out.dtype(), sum.branch.dtype(), [&]<class S, class T>(S, T) {
    with_sum<S, T>(out, sum, [&]<bool drops>(const SummedRows<S, T, drops>& summed) {
      with_row_kind(NarrowToWide(), width, {out, sum.residual, sum.branch, sum.bias}, [&]<class Kind>(Kind kind) {
        launch(stream, add_branch<Kind, S, T, drops>, rows_shape(kind, rows, width), summed, rows);
      });
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
    with_row_kind(WithColumnSums(), width, {dbranch, dout}, [&]<class Kind>(Kind kind) {
      const auto kernel =
          dropout.active() ? residual_backward_rows<Kind, true, S, T> : residual_backward_rows<Kind, false, S, T>;
      blocks = launch_sums(stream, kernel, sums_shape(kind, count, width, partials == nullptr ? 0 : width), operands);
    });
  });
  if (partials != nullptr) sum_partials(stream, {dbias}, partials, blocks, static_cast<int>(width));
}

std::size_t row_sums_work(const Stream&, std::int64_t rows, std::int64_t, std::int64_t sums) {
  return std::size_t(std::min<std::int64_t>(rows, kMostPartials)) * sums * sizeof(float);
}

}  // namespace mtl::cuda
