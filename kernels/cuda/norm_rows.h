// Norms of rows: LayerNorm, or RMSNorm, whose mean and beta are absent:
//   y = gamma x_hat + beta, x_hat = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   dx = skip + rstd (g - mean(g) - x_hat mean(g x_hat)) with g = gamma dy, without mean(g) for RMSNorm
//   dgamma = sum over rows of dy x_hat, dbeta = sum over rows of dy
// The residual stream has dtype S, gamma and y have dtype T. A team of threads shares each row (kernels/cuda/rows.h)
// and keeps it in registers, so that it is read once.
//
// Forward names every fused multiply-add. Where the compiler chooses, kernels for rows in memory and for sums can
// round differently, and a layer that is computed again would differ in its last bits.
#pragma once

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/residual_rows.h"

namespace mtl::cuda {

/// Forward's operands. X is Rows<const S> or SummedRows<S, T>. `mean` and `beta` are null for RMSNorm, `rstd` if not
/// needed.
template <class X, class T>
struct NormForward {
  Rows<T> y;
  X x;
  float *mean, *rstd;
  const T *gamma, *beta;
  std::int64_t rows;
  int width;
  float eps;
};

template <int n, int packs, class X, class T>
__global__ void norm_forward_rows(const __grid_constant__ NormForward<X, T> f, Team team) {
  team.over_rows(f.rows, f.width, [&](std::int64_t row, int width) {
    KeptRow<n, packs> kept;
    keep_row(kept, f.x, row, width, team);
    const auto* x = f.x.at(row);
    T* y = f.y.at(row);
    const float columns = static_cast<float>(f.width);
    float mean = 0, squares = 0;
    if (f.mean != nullptr) {
      float sum = 0;
      team.over_row<n, packs>(width, [&](int k, int i) {
        const Pack<n> in = kept.get(k, x + i);
        for (int j = 0; j < n; ++j) sum += in[j];
      });
      mean = team.sum(sum) / columns;
    }
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept.get(k, x + i);
      for (int j = 0; j < n; ++j) squares = fmaf(in[j] - mean, in[j] - mean, squares);
    });
    const float rstd = 1 / sqrtf(team.sum(squares) / columns + f.eps);
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept.get(k, x + i), weight = load<n>(f.gamma + i);
      const Pack<n> bias = f.beta == nullptr ? Pack<n>{} : load<n>(f.beta + i);
      Pack<n> out;
      for (int j = 0; j < n; ++j) out[j] = fmaf((in[j] - mean) * rstd, weight[j], bias[j]);
      store(y + i, out);
    });
    if (width == 0 || team.thread() > 0) return;
    if (f.mean != nullptr) f.mean[row] = mean;
    if (f.rstd != nullptr) f.rstd[row] = rstd;
  });
}

/// Launches forward. `tensors` are all operands.
template <class X, class T>
void norm_rows(Stream& stream, const NormForward<X, T>& f, std::initializer_list<Tensor> tensors) {
  const RowsShape shape = rows_shape(f.rows, f.width, 2048);
  with_row_packs<4, 8>(f.width, shape.team, tensors,
                       [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
                         launch(stream, norm_forward_rows<n, packs, X, T>, shape.launch, f, Team{shape.team});
                       });
}

/// Backward's operands, of LayerNorm if `has_mean`. `partials` is null if neither dgamma nor dbeta is wanted.
template <bool has_mean, class S, class T>
struct NormBackward {
  Rows<S> dx;
  Rows<const S> skip;
  bool wants_dx, has_skip;
  float* partials;
  Rows<const T> dy;
  Rows<const S> x;
  const float *mean, *rstd;
  const T* gamma;
  std::int64_t rows;
  int width;
};

/// Returns the operands for consecutive rows. `mean` is absent for RMSNorm; `grad` and `work` may be.
template <bool has_mean, class S, class T>
NormBackward<has_mean, S, T> dense_backward(const StreamGrad& grad, const Tensor& work, const Tensor& dy,
                                            const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                            const Tensor& gamma) {
  const auto width = static_cast<int>(dy.size(-1));
  const auto data = [](const Tensor& tensor) { return tensor.exists() ? tensor.data<S>() : nullptr; };
  return {.dx = {data(grad.tensor), width},
          .skip = {data(grad.skip), width},
          .wants_dx = grad.wanted(),
          .has_skip = grad.skip.exists(),
          .partials = static_cast<float*>(work.raw()),
          .dy = {dy.data<T>(), width},
          .x = {x.data<S>(), width},
          .mean = mean.exists() ? mean.data<float>() : nullptr,
          .rstd = rstd.data<float>(),
          .gamma = gamma.data<T>(),
          .rows = dy.row_count(),
          .width = width};
}

template <int n, int packs, bool has_mean, class S, class T>
__global__ void norm_backward_rows(const __grid_constant__ NormBackward<has_mean, S, T> b, Team team) {
  ColumnSums<n, packs, has_mean ? 2 : 1> sums(team, b.partials, b.width);
  team.over_rows(b.rows, b.width, [&](std::int64_t row, int width) {
    const auto* x = b.x.at(row);
    const auto* dy = b.dy.at(row);
    const auto* skip = b.skip.at(row);
    KeptRow<n, packs> kept_x, kept_dy, kept_skip;
    team.over_row<n, packs>(width, [&](int k, int i) {
      kept_x.keep(k, x + i);
      kept_dy.keep(k, dy + i);
      if (b.has_skip) kept_skip.keep(k, skip + i);
    });
    float mean = 0;
    if constexpr (has_mean) mean = width > 0 ? b.mean[row] : 0;
    const float rstd = width > 0 ? b.rstd[row] : 0;
    float sum_g = 0, sum_gx = 0;
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept_x.get(k, x + i), grad = kept_dy.get(k, dy + i), weight = load<n>(b.gamma + i);
      Pack<n> product;
      for (int j = 0; j < n; ++j) {
        product[j] = grad[j] * ((in[j] - mean) * rstd);
        sum_g += weight[j] * grad[j];
        sum_gx += weight[j] * product[j];
      }
      sums.add(0, k, i, product);
      if constexpr (has_mean) sums.add(1, k, i, grad);
    });
    if (!b.wants_dx) return;
    float mean_g = 0;
    if constexpr (has_mean) mean_g = team.sum(sum_g) / static_cast<float>(b.width);
    const float mean_gx = team.sum(sum_gx) / static_cast<float>(b.width);
    auto* dx = b.dx.at(row);  // may alias skip, x and dy: each thread writes only columns it has already read
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept_x.get(k, x + i), grad = kept_dy.get(k, dy + i), weight = load<n>(b.gamma + i);
      Pack<n> out = b.has_skip ? kept_skip.get(k, skip + i) : Pack<n>{};
      for (int j = 0; j < n; ++j) out[j] += rstd * (weight[j] * grad[j] - mean_g - (in[j] - mean) * rstd * mean_gx);
      store(dx + i, out);
    });
  });
  sums.write();
}

/// Launches backward. `tensors` are all operands. Returns the number of rows in the partials.
template <bool has_mean, class S, class T>
int norm_rows_backward(Stream& stream, const NormBackward<has_mean, S, T>& b, std::initializer_list<Tensor> tensors) {
  constexpr int kSums = has_mean ? 2 : 1;
  int blocks = 0;
  with_row_packs<1, 2, 3, 4>(b.width, sums_team(b.width), tensors,
                             [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
                               const int sums = b.partials == nullptr ? 0 : kSums * b.width;
                               blocks = launch_sums(stream, norm_backward_rows<n, packs, has_mean, S, T>,
                                                    sums_shape(b.rows, b.width, sums, packs), b);
                             });
  return blocks;
}

}  // namespace mtl::cuda
