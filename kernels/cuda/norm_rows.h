// Norms of rows: LayerNorm if `has_mean`, otherwise RMSNorm, whose mean and beta are absent:
//   y = gamma x_hat + beta, x_hat = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps)
// X and Y locate a row; each is DenseRows, HeadRows or SummedRows. A team of threads shares each row
// (kernels/cuda/rows.h) and keeps it in registers, so that it is read once.
#pragma once

#include "kernels/cuda/residual_rows.h"

namespace mtl::cuda {

/// Forward's operands. `rstd` is null if not needed.
template <bool has_mean, class X, class Y, class T>
struct NormForward {
  Y y;
  X x;
  float *mean, *rstd;
  const T *gamma, *beta;
  std::int64_t rows;
  int width;
  float eps;
};

template <int n, int packs, bool has_mean, class X, class Y, class T>
__global__ void norm_forward_rows(const __grid_constant__ NormForward<has_mean, X, Y, T> f, Team team) {
  team.over_rows(f.rows, f.width, [&](std::int64_t row, int width) {
    KeptRow<n, packs> kept;
    keep_row(kept, f.x, row, width, team);
    const auto* x = f.x.at(row);
    T* y = f.y.at(row);
    const float columns = static_cast<float>(f.width);
    float mean = 0, squares = 0;
    if constexpr (has_mean) {
      float sum = 0;
      team.over_row<n, packs>(width, [&](int k, int i) {
        const Pack<n> in = kept.get(k, x + i);
        for (int j = 0; j < n; ++j) sum += in[j];
      });
      mean = team.sum(sum) / columns;
    }
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept.get(k, x + i);
      for (int j = 0; j < n; ++j) squares += (in[j] - mean) * (in[j] - mean);
    });
    const float rstd = 1 / sqrtf(team.sum(squares) / columns + f.eps);
    team.over_row<n, packs>(width, [&](int k, int i) {
      const Pack<n> in = kept.get(k, x + i), weight = load<n>(f.gamma + i);
      Pack<n> out;
      for (int j = 0; j < n; ++j) out[j] = (in[j] - mean) * rstd * weight[j];
      if constexpr (has_mean) {
        const Pack<n> bias = load<n>(f.beta + i);
        for (int j = 0; j < n; ++j) out[j] += bias[j];
      }
      store(y + i, out);
    });
    if (width == 0 || team.thread() > 0) return;
    if constexpr (has_mean) f.mean[row] = mean;
    if (f.rstd != nullptr) f.rstd[row] = rstd;
  });
}

/// Launches forward. `tensors` are all operands.
template <bool has_mean, class X, class Y, class T>
void norm_rows(Stream& stream, const NormForward<has_mean, X, Y, T>& f, std::initializer_list<Tensor> tensors) {
  const RowsShape shape = rows_shape(f.rows, f.width);
  with_row_packs<4, 8>(f.width, shape.team, tensors,
                       [&]<int n, int packs>(std::integral_constant<int, n>, std::integral_constant<int, packs>) {
                         launch(stream, norm_forward_rows<n, packs, has_mean, X, Y, T>, shape.launch, f,
                                Team{shape.team});
                       });
}

}  // namespace mtl::cuda
