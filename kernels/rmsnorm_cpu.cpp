#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/rmsnorm_cpu.cpp"
#include "kernels/rmsnorm_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// x, from the residual stream, has dtype S; y and gamma have T.
void rmsnorm_forward_rows(Tensor y, const RmsNormCache& cache, Tensor gamma, float eps, Range rows) {
  with_stream(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = y.size(-1);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      cache.rstd.data<float>()[row] =
          rmsnorm_row(y.data<T>() + row * width, cache.x.data<S>() + row * width, gamma.data<T>(), width, eps);
    }
  });
}

/// Writes rows of dx if dx is wanted. Unless `sums` (C) is null, also adds these rows' dgamma to `sums`.
void rmsnorm_backward_rows(const StreamGrad& dx, Tensor dy, const RmsNormCache& cache, Tensor gamma, Range rows,
                           float* sums) {
  with_stream(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = dy.size(-1);
    for (std::int64_t n = rows.begin; n < rows.end; ++n) {
      const RmsNormRow<S, T> row{.x = cache.x.data<S>() + n * width,
                                 .dy = dy.data<T>() + n * width,
                                 .gamma = gamma.data<T>(),
                                 .width = static_cast<std::size_t>(width),
                                 .rstd = cache.rstd.data<float>()[n]};
      const float mean_gx = rmsnorm_row_sums(row, sums);
      if (dx.wanted()) rmsnorm_row_dx(row, mean_gx, dx.tensor.data<S>() + n * width, dx.skip_at<S>(n * width));
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, const ResidualSum& sum, Tensor gamma,
                     float eps) {
  over_summed_rows(stream, cache.x, sum, [&](Range rows) {
    MTL_DISPATCH(rmsnorm_forward_rows)(y, cache, gamma, eps, rows);
  });
}

void rmsnorm_backward(Stream& stream, Tensor work, const StreamGrad& dx, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  const std::int64_t width = dy.size(-1);
  for_row_sum_blocks(stream, work, dy.row_count(), width, dy.numel(), [&](Range rows, float* sums) {
    MTL_DISPATCH(rmsnorm_backward_rows)(dx, dy, cache, gamma, rows, sums);
  });
  if (dgamma.wanted())
    sum_partials(stream, dgamma, work_as<float>(work), row_sum_blocks(dy.row_count()).number(), width);
}

}  // namespace mtl::cpu
#endif
