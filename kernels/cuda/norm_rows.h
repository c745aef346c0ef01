// Norms of rows: LayerNorm, or RMSNorm, whose mean and beta are absent:
//   y = gamma x_hat + beta, x_hat = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   dx = skip + rstd (g - mean(g) - x_hat mean(g x_hat)) with g = gamma dy, without mean(g) for RMSNorm
//   dgamma = sum over rows of dy x_hat, dbeta = sum over rows of dy, and maybe dbias = sum over rows of skip
// The residual stream has dtype S, gamma and y have dtype T. A team of threads shares each row (kernels/cuda/rows.h)
// and keeps it in registers, so that it is read once.
//
// Forward names every fused multiply-add. Where the compiler chooses, kernels for rows in memory and for sums can
// round differently, and a layer that is computed again would differ in its last bits.
#pragma once

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/residual_rows.h"

namespace mtl::cuda {

/// Forward's operands, of LayerNorm if `has_mean`. Y is Rows<T> or HeadRows<T>; X is Rows<const S>, HeadRows<const T>
/// or SummedRows<S, T, ...>. `mean` and `beta` are null for RMSNorm, `rstd` if not needed.
template <bool has_mean, class Y, class X, class T>
struct NormForward {
  Y y;
  X x;
  float *mean, *rstd;
  const T *gamma, *beta;
  std::int64_t rows;
  int width;
  float eps;
};

template <class Kind, bool has_mean, class Y, class X, class T>
__global__ void __launch_bounds__(Kind::most_threads)
    norm_forward_rows(const __grid_constant__ NormForward<has_mean, Y, X, T> f) {
  constexpr int n = Kind::n;
  Team<Kind> team(f.width);
  const std::int64_t row = team.first_row();
  if (row >= f.rows) return;
  KeptRow<Kind, typename X::Element> kept;
  keep_row(kept, f.x, row, team);
  const auto* x = f.x.at(row);
  const float share = 1 / static_cast<float>(f.width);
  float mean = 0, squares = 0;
  if constexpr (has_mean) {
    float sum = 0;
    team.over_row([&](int k, int i, bool holds) {
      const Pack<n> in = kept.get(k, x + i).widened();
      float own = 0;
      for (int j = 0; j < n; ++j) own += in[j];
      sum += holds ? own : 0;
    });
    mean = team.sum(sum) * share;
  }
  team.over_row([&](int k, int i, bool holds) {
    const Pack<n> in = kept.get(k, x + i).widened();
    float own = 0;
    for (int j = 0; j < n; ++j) own = fmaf(in[j] - mean, in[j] - mean, own);
    squares += holds ? own : 0;
  });
  const float rstd = rsqrtf(fmaf(team.sum(squares), share, f.eps));
  T* y = f.y.at(row);
  team.over_row([&](int k, int i, bool holds) {
    const Pack<n> in = kept.get(k, x + i).widened(), weight = load<n>(f.gamma + i);
    Pack<n> bias{}, out;
    if constexpr (has_mean) bias = load<n>(f.beta + i);
    for (int j = 0; j < n; ++j) out[j] = fmaf((in[j] - mean) * rstd, weight[j], bias[j]);
    if (holds) store(y + i, out);
  });
  if (team.thread() > 0) return;
  if constexpr (has_mean) f.mean[row] = mean;
  if (f.rstd != nullptr) f.rstd[row] = rstd;
}

/// Launches forward. `tensors` are all operands.
template <bool has_mean, class Y, class X, class T>
void norm_rows(Stream& stream, const NormForward<has_mean, Y, X, T>& f, std::initializer_list<Tensor> tensors) {
  with_row_kind(typename X::Kinds(), f.width, tensors, [&]<class Kind>(Kind kind) {
    launch(stream, norm_forward_rows<Kind, has_mean, Y, X, T>, rows_shape(kind, f.rows, f.width), f);
  });
}

/// Backward's operands. R is Rows or HeadRows. The first of the `arrays` sums over rows is dgamma, the second, only of
/// LayerNorm, dbeta, and the third, which needs `skip`, dbias. `partials` is null if none of them is wanted.
template <int arrays, template <class> class R, class S, class T>
struct NormBackward {
  R<S> dx;
  R<const S> skip;
  bool wants_dx, has_skip;
  float* partials;
  R<const T> dy;
  R<const S> x;
  const float *mean, *rstd;
  const T* gamma;
  std::int64_t rows;
  int width;
};

/// Returns the operands for consecutive rows. `mean` is absent for RMSNorm; `grad` and `work` may be.
template <int arrays, class S, class T>
NormBackward<arrays, Rows, S, T> dense_backward(const StreamGrad& grad, const Tensor& work, const Tensor& dy,
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

template <class Kind, int arrays, template <class> class R, class S, class T>
__global__ void __launch_bounds__(kMostSumThreads<Kind>)
    norm_backward_rows(const __grid_constant__ NormBackward<arrays, R, S, T> b) {
  constexpr int n = Kind::n;
  constexpr bool has_mean = arrays > 1, sums_skip = arrays > 2;
  const bool has_skip = sums_skip || b.has_skip;
  Team<Kind> team(b.width);
  ColumnSums<Kind, arrays> sums(team, b.partials, b.width);
  const float share = 1 / static_cast<float>(b.width);
  for (std::int64_t row = team.first_row(); row < b.rows; row += team.all_teams()) {
    const S* x = b.x.at(row);
    const T* dy = b.dy.at(row);
    const S* skip = has_skip ? b.skip.at(row) : x;
    KeptRow<Kind, S> kept_x, kept_skip;
    KeptRow<Kind, T> kept_dy;
    team.over_row([&](int k, int i, bool) {
      kept_x.keep(k, x + i);
      kept_dy.keep(k, dy + i);
      kept_skip.keep(k, skip + i);
    });
    const float rstd = b.rstd[row];
    float shift = 0;  // x_hat = x rstd + shift
    if constexpr (has_mean) shift = -b.mean[row] * rstd;
    float of_row[2] = {};  // sums of g x_hat and of g
    team.over_row([&](int k, int i, bool holds) {
      const StoredPack<S, n> in = kept_x.get(k, x + i);
      const StoredPack<T, n> grad = kept_dy.get(k, dy + i), weight = load_stored<n>(b.gamma + i);
      Pack<n> product;
      float g = 0, gx = 0;
      for (int j = 0; j < n; ++j) {
        product[j] = grad[j] * fmaf(in[j], rstd, shift);
        gx = fmaf(weight[j], product[j], gx);
        if constexpr (has_mean) g = fmaf(weight[j], grad[j], g);
      }
      of_row[0] += holds ? gx : 0;
      of_row[1] += holds ? g : 0;
      sums.add(0, k, i, product);
      if constexpr (has_mean) sums.add(1, k, i, grad.widened());
    });
    if (!sums_skip && !b.wants_dx) continue;  // where there is a skip, there is a dx
    if constexpr (has_mean)
      team.sum(of_row);
    else
      of_row[0] = team.sum(of_row[0]);
    const float mean_gx = -rstd * (of_row[0] * share), mean_g = -rstd * (of_row[1] * share);
    S* dx = b.dx.at(row);  // may alias skip, x and dy: each thread writes only columns it has already read
    team.over_row([&](int k, int i, bool holds) {
      const StoredPack<S, n> in = kept_x.get(k, x + i), more = kept_skip.get(k, skip + i);
      const StoredPack<T, n> grad = kept_dy.get(k, dy + i), weight = load_stored<n>(b.gamma + i);
      Pack<n> out;
      for (int j = 0; j < n; ++j) {
        out[j] = (has_skip ? more[j] : 0) + mean_g;
        out[j] = fmaf(weight[j] * grad[j], rstd, out[j]);
        out[j] = fmaf(fmaf(in[j], rstd, shift), mean_gx, out[j]);
      }
      if constexpr (sums_skip) sums.add(2, k, i, more.widened());
      if (holds) store(dx + i, out);
    });
  }
  sums.write();
}

/// Launches backward. `tensors` are all operands. Returns the number of rows in the partials.
template <int arrays, template <class> class R, class S, class T>
int norm_rows_backward(Stream& stream, const NormBackward<arrays, R, S, T>& b, std::initializer_list<Tensor> tensors) {
  int blocks = 0;
  with_row_kind(std::conditional_t<std::is_same_v<R<S>, HeadRows<S>>, OfHeads, WithColumnSums>(), b.width, tensors,
                [&]<class Kind>(Kind kind) {
                  const int sums = b.partials == nullptr ? 0 : arrays * b.width;
                  blocks = launch_sums(stream, norm_backward_rows<Kind, arrays, R, S, T>,
                                       sums_shape(kind, b.rows, b.width, sums), b);
                });
  return blocks;
}

}  // namespace mtl::cuda
