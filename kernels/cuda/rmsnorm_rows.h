// RMSNorm on rows, for rmsnorm_cuda.cu and head_norm_cuda.cu:
//   y = gamma x_hat, x_hat = x rstd, rstd = 1 / sqrt(mean(x^2) + eps)
//   dx = rstd (g - x_hat mean(g x_hat)) with g = gamma dy, dgamma = sum over rows of dy x_hat
// X, Y and so on locate a row; each is DenseRows, HeadRows or SummedRows. A team of threads shares each row
// (kernels/cuda/rows.h). The second pass over a row finds it in the caches.
#pragma once

#include "kernels/cuda/norm_rows.h"
#include "kernels/head_slice.h"

namespace mtl::cuda {

/// The heads in a slice, in (B, T, G, count) order.
template <class T>
struct HeadRows {
  T* data;  // the first head of the slice
  std::int64_t count, heads, width;

  explicit HeadRows(const HeadSlice& slice)
      : data(slice.tensor.data<T>() + slice.first * slice.tensor.size(4)),
        count(slice.count),
        heads(slice.tensor.size(3)),
        width(slice.tensor.size(4)) {}
  __device__ T* at(std::int64_t row) const { return data + (row / count * heads + row % count) * width; }
};

/// Backward's operands. `partials` is null if dgamma is not needed.
template <class X, class Dx, class Dy, class T>
struct RmsNormBackward {
  Dx dx;
  Dx skip;
  bool wants_dx, has_skip;
  float* partials;
  Dy dy;
  X x;
  const float* rstd;
  const T* gamma;
  std::int64_t rows;
  int width;
};

/// Returns a row's mean(g x_hat), for dx, or 0 if dx is not wanted. Unless `sums` (C) is null, adds dy x_hat to `sums`,
/// for dgamma.
template <int n, class X, class Dx, class Dy, class T>
__device__ float rmsnorm_mean_gx(const RmsNormBackward<X, Dx, Dy, T>& b, std::int64_t row, int width, const Team& team,
                                 float rstd, float* sums) {
  const auto* x = b.x.at(row);
  const auto* dy = b.dy.at(row);
  float sum_gx = 0;
  team.over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    Pack<n> product;
    for (int j = 0; j < n; ++j) {
      product[j] = grad[j] * (in[j] * rstd);
      sum_gx += weight[j] * product[j];
    }
    if (sums == nullptr) return;
    Pack<n> dgamma = load<n>(sums + i);
    for (int j = 0; j < n; ++j) dgamma[j] += product[j];
    store(sums + i, dgamma);
  });
  return b.wants_dx ? team.sum(sum_gx) / static_cast<float>(b.width) : 0;
}

template <int n, class X, class Dx, class Dy, class T>
__device__ void rmsnorm_write_dx(const RmsNormBackward<X, Dx, Dy, T>& b, std::int64_t row, int width, const Team& team,
                                 float rstd, float mean_gx) {
  const auto* x = b.x.at(row);
  const auto* dy = b.dy.at(row);
  auto* dx = b.dx.at(row);
  team.over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    Pack<n> out = b.has_skip ? load<n>(b.skip.at(row) + i) : Pack<n>{};
    for (int j = 0; j < n; ++j) out[j] += rstd * (weight[j] * grad[j] - in[j] * rstd * mean_gx);
    store(dx + i, out);
  });
}

template <int n, class X, class Dx, class Dy, class T>
__global__ void rmsnorm_backward_rows(const __grid_constant__ RmsNormBackward<X, Dx, Dy, T> b, Team team) {
  const int sums = b.partials == nullptr ? 0 : b.width;
  team.clear_sums<n>(sums, b.width);
  team.over_rows(b.rows, b.width, [&](std::int64_t row, int width) {
    const float rstd = width > 0 ? b.rstd[row] : 0;
    const float mean_gx = rmsnorm_mean_gx<n>(b, row, width, team, rstd, sums > 0 ? team.own_sums(sums) : nullptr);
    // dx may alias dy and x: each thread writes only columns it has already read.
    if (b.wants_dx) rmsnorm_write_dx<n>(b, row, width, team, rstd, mean_gx);
  });
  if (sums > 0) team.write_sums(b.partials, sums);
}

template <int n, class X, class Dx, class Dy, class T>
void rmsnorm_rows_backward(Stream& stream, const RmsNormBackward<X, Dx, Dy, T>& b) {
  const RowsShape shape = rows_shape(b.rows, b.width, b.partials == nullptr ? 0 : b.width);
  launch(stream, rmsnorm_backward_rows<n, X, Dx, Dy, T>, shape.launch, b, Team{shape.team});
}

/// Sums the partials that backward wrote to `work`, and writes the result to dgamma or adds it, as dgamma.mode says.
/// `work` has row_sums_work() bytes.
inline void rmsnorm_add_dgamma(Stream& stream, const Grad& dgamma, const Tensor& work, std::int64_t rows, int width) {
  sum_partials(stream, dgamma, static_cast<const float*>(work.raw()),
               static_cast<int>(rows_shape(rows, width, width).launch.blocks.x), width);
}

}  // namespace mtl::cuda
