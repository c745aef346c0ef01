// Processes one row at a time. Each row is read from memory once and stays in L1 for all passes.
#include <cmath>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/layernorm_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Backward's operands for one row.
template <class S, class T>
struct BackwardRow {
  const S* x;
  const T *dy, *gamma;
  std::size_t width;
  float mean, rstd;

  template <class Lanes>
  HWY_INLINE VecF32 x_hat(std::size_t i, Lanes lanes) const {
    return hn::Mul(hn::Sub(lanes.load(x + i), set(mean)), set(rstd));
  }
};

/// dx = skip + rstd (g - mean(g) - x_hat mean(g x_hat)), with g = gamma dy. `skip` may be null.
template <class S, class T>
void write_dx(const BackwardRow<S, T>& row, S* dx, const S* skip) {
  const auto g = [&](std::size_t i, auto lanes)
                     HWY_ATTR { return hn::Mul(lanes.load(row.gamma + i), lanes.load(row.dy + i)); };
  const float n = static_cast<float>(row.width);
  const VecF32 mean_g = set(sum_of(row.width, g) / n);
  const VecF32 mean_gx = set(
      sum_of(row.width, [&](std::size_t i, auto lanes) HWY_ATTR { return hn::Mul(g(i, lanes), row.x_hat(i, lanes)); }) /
      n);
  const VecF32 rstd = set(row.rstd);
  sweep(row.width, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 centered = hn::NegMulAdd(row.x_hat(i, lanes), mean_gx, hn::Sub(g(i, lanes), mean_g));
    const VecF32 before = skip != nullptr ? lanes.load(skip + i) : set(0);
    lanes.store(hn::MulAdd(rstd, centered, before), dx + i);
  });
}

/// Adds the row's dgamma, dbeta and, unless it is null, `skip` to sums (2 or 3, C).
template <class S, class T>
void add_parameter_sums(const BackwardRow<S, T>& row, const S* skip, float* sums) {
  sweep(row.width, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 dy = lanes.load(row.dy + i);
    float *dgamma = sums + i, *dbeta = dgamma + row.width, *dbias = dbeta + row.width;
    lanes.store(hn::MulAdd(dy, row.x_hat(i, lanes), lanes.load(dgamma)), dgamma);
    lanes.store(hn::Add(lanes.load(dbeta), dy), dbeta);
    if (skip != nullptr) lanes.store(hn::Add(lanes.load(dbias), lanes.load(skip + i)), dbias);
  });
}

/// x, from the residual stream, has dtype S; y, gamma and beta have T.
void layernorm_forward_rows(Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps, Range rows) {
  with_stream(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::size_t width = y.size(-1);
    const T *weight = gamma.data<T>(), *bias = beta.data<T>();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const S* x = cache.x.data<S>() + row * y.size(-1);
      T* out = y.data<T>() + row * y.size(-1);
      const float mean = sum_of(width, [&](std::size_t i, auto lanes) HWY_ATTR { return lanes.load(x + i); }) /
                         static_cast<float>(width);
      const VecF32 center = set(mean);
      const float squares = sum_of(width, [&](std::size_t i, auto lanes) HWY_ATTR {
        const VecF32 d = lanes.keep(hn::Sub(lanes.load(x + i), center));
        return hn::Mul(d, d);
      });
      const float rstd = 1 / std::sqrt(squares / static_cast<float>(width) + eps);
      const VecF32 r = set(rstd);
      sweep(width, [&](std::size_t i, auto lanes) HWY_ATTR {
        const VecF32 x_hat = hn::Mul(hn::Sub(lanes.load(x + i), center), r);
        lanes.store(hn::MulAdd(x_hat, lanes.load(weight + i), lanes.load(bias + i)), out + i);
      });
      cache.mean.data<float>()[row] = mean;
      cache.rstd.data<float>()[row] = rstd;
    }
  });
}

void layernorm_backward_rows(const LayerNormGrads& grads, Tensor dy, const LayerNormCache& cache, Tensor gamma,
                             Range rows, float* sums) {
  with_stream(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = dy.size(-1);
    for (std::int64_t n = rows.begin; n < rows.end; ++n) {
      const BackwardRow<S, T> row{.x = cache.x.data<S>() + n * width,
                                  .dy = dy.data<T>() + n * width,
                                  .gamma = gamma.data<T>(),
                                  .width = static_cast<std::size_t>(width),
                                  .mean = cache.mean.data<float>()[n],
                                  .rstd = cache.rstd.data<float>()[n]};
      const S* skip = grads.dx.skip_at<S>(n * width);
      // Before writing dx, which may be dy, x or skip.
      if (sums != nullptr) add_parameter_sums(row, grads.dx.dbias.wanted() ? skip : nullptr, sums);
      if (grads.dx.wanted()) write_dx(row, grads.dx.tensor.data<S>() + n * width, skip);
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, const ResidualSum& sum, Tensor gamma,
                       Tensor beta, float eps) {
  over_summed_rows(stream, cache.x, sum, [&](Range rows) {
    MTL_DISPATCH(layernorm_forward_rows)(y, cache, gamma, beta, eps, rows);
  });
}

void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  const std::int64_t width = dy.size(-1), stride = grads.arrays() * width;
  for_row_sum_blocks(stream, work, dy.row_count(), stride, dy.numel(), [&](Range rows, float* sums) {
    MTL_DISPATCH(layernorm_backward_rows)(grads, dy, cache, gamma, rows, sums);
  });
  const float* sums = work_as<float>(work);
  for (const Grad& sum : grads.sums()) {
    if (sum.wanted()) sum_partials(stream, sum, sums, row_sum_blocks(dy.row_count()).number(), stride);
    sums += width;
  }
}

}  // namespace mtl::cpu
#endif
