// LayerNorm on rows:
//   y = gamma x_hat + beta, x_hat = (x - mean) rstd
//   dx = rstd (g - mean(g) - x_hat mean(g x_hat)) with g = gamma dy
// A team of threads shares a row (kernels/cuda/rows.h). Passes after the first find the row in the caches, so memory is
// read and written once:
//   forward   x and y                          2 N C elements; with a sum: residual, branch, x and y, 4 N C
//   backward  x, dy, dx, maybe skip  3 or 4 N C elements; gradients of gamma and beta in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/cuda/types.h"

namespace mtl::cuda {

namespace {

/// The operands of the backward pass. `dx` is null if it is not wanted. `skip` is null if it is absent. `partials` is
/// null if neither dgamma nor dbeta is wanted.
template <class S, class T>
struct LayerNormBackward {
  S* dx;
  const S* skip;
  float* partials;
  const T *dy, *gamma;
  const S* x;
  const float *mean, *rstd;
  std::int64_t rows;
  int width;
};

/// A row's means of g and g x_hat, for dx.
struct Means {
  float g, gx;
};

/// Returns a row's means. Unless `sums` (2, C) is null, adds dy x_hat and dy to `sums`, for dgamma and dbeta.
template <int n, class S, class T>
__device__ Means read_row(const LayerNormBackward<S, T>& b, std::int64_t row, int width, const Team& team,
                          float* sums) {
  const S* x = b.x + row * b.width;
  const T* dy = b.dy + row * b.width;
  const float mean = width > 0 ? b.mean[row] : 0, rstd = width > 0 ? b.rstd[row] : 0;
  float sum_g = 0, sum_gx = 0;
  team.over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    Pack<n> x_hat;
    for (int j = 0; j < n; ++j) {
      x_hat[j] = (in[j] - mean) * rstd;
      sum_g += weight[j] * grad[j];
      sum_gx += weight[j] * grad[j] * x_hat[j];
    }
    if (sums == nullptr) return;
    Pack<n> dgamma = load<n>(sums + i), dbeta = load<n>(sums + b.width + i);
    for (int j = 0; j < n; ++j) {
      dgamma[j] += grad[j] * x_hat[j];
      dbeta[j] += grad[j];
    }
    store(sums + i, dgamma);
    store(sums + b.width + i, dbeta);
  });
  if (b.dx == nullptr) return {};
  const float columns = static_cast<float>(b.width);
  return {team.sum(sum_g) / columns, team.sum(sum_gx) / columns};
}

template <int n, class S, class T>
__device__ void write_dx(const LayerNormBackward<S, T>& b, std::int64_t row, int width, const Team& team,
                         const Means& means) {
  const S* x = b.x + row * b.width;
  const T* dy = b.dy + row * b.width;
  S* dx = b.dx + row * b.width;
  const float mean = width > 0 ? b.mean[row] : 0, rstd = width > 0 ? b.rstd[row] : 0;
  team.over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    Pack<n> out = b.skip == nullptr ? Pack<n>{} : load<n>(b.skip + row * b.width + i);
    for (int j = 0; j < n; ++j) out[j] += rstd * (weight[j] * grad[j] - means.g - (in[j] - mean) * rstd * means.gx);
    store(dx + i, out);
  });
}

template <int n, class S, class T>
__global__ void layernorm_backward_rows(const __grid_constant__ LayerNormBackward<S, T> b, Team team) {
  const int sums = b.partials == nullptr ? 0 : 2 * b.width;
  team.clear_sums<n>(sums, b.width);
  team.over_rows(b.rows, b.width, [&](std::int64_t row, int width) {
    const Means means = read_row<n>(b, row, width, team, sums > 0 ? team.own_sums(sums) : nullptr);
    if (b.dx != nullptr)
      write_dx<n>(b, row, width, team, means);  // dx may alias dy and x: each thread has read its columns
  });
  if (sums > 0) team.write_sums(b.partials, sums);
}

}  // namespace

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, const ResidualSum& sum, Tensor gamma,
                       Tensor beta, float eps) {
  const auto width = static_cast<int>(y.size(-1));
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_rows<S, T>(cache.x, sum, [&]<class X>(const X& x) {
      const NormForward<true, X, DenseRows<T>, T> operands{.y = {y.data<T>(), width},
                                                           .x = x,
                                                           .mean = cache.mean.data<float>(),
                                                           .rstd = cache.rstd.data<float>(),
                                                           .gamma = gamma.data<T>(),
                                                           .beta = beta.data<T>(),
                                                           .rows = y.row_count(),
                                                           .width = width,
                                                           .eps = eps};
      norm_rows(stream, operands, {y, cache.x, gamma, beta, sum.residual, sum.branch, sum.bias});
    });
  });
}

void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  const std::int64_t rows = dy.row_count(), width = dy.size(-1);
  const RowsShape shape = rows_shape(rows, width, work.exists() ? 2 * width : 0);
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    const Tensor& dx = grads.dx.tensor;
    const LayerNormBackward<S, T> operands{.dx = grads.dx.wanted() ? dx.data<S>() : nullptr,
                                           .skip = grads.dx.skip_at<S>(0),
                                           .partials = static_cast<float*>(work.raw()),
                                           .dy = dy.data<T>(),
                                           .gamma = gamma.data<T>(),
                                           .x = cache.x.data<S>(),
                                           .mean = cache.mean.data<float>(),
                                           .rstd = cache.rstd.data<float>(),
                                           .rows = rows,
                                           .width = static_cast<int>(width)};
    with_pack_size(width, {dx, grads.dx.skip, dy, cache.x, gamma}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, layernorm_backward_rows<n, S, T>, shape.launch, operands, Team{shape.team});
    });
  });
  const auto blocks = static_cast<int>(shape.launch.blocks.x), sums = static_cast<int>(2 * width);
  const auto* partials = static_cast<const float*>(work.raw());
  if (grads.dgamma.wanted()) sum_partials(stream, grads.dgamma, partials, blocks, sums);
  if (grads.dbeta.wanted()) sum_partials(stream, grads.dbeta, partials + width, blocks, sums);
}

}  // namespace mtl::cuda
