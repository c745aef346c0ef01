// RMSNorm for one row (kernels/rmsnorm.h). Include this header instead of simd.h, which it includes.
//
// A row is read from memory once and stays in L1 for the second pass.
#include "kernels/simd.h"

#if defined(MTL_RMSNORM_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_RMSNORM_SIMD_TOGGLE
#undef MTL_RMSNORM_SIMD_TOGGLE
#else
#define MTL_RMSNORM_SIMD_TOGGLE
#endif

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Writes y, which may alias x, and returns rstd. x has dtype S; y and gamma have dtype T.
template <class S, class T>
HWY_INLINE float rmsnorm_row(T* y, const S* x, const T* gamma, std::size_t width, float eps) {
  const float squares = sum_of(width, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 v = lanes.load(x + i);
    return hn::Mul(v, v);
  });
  const float rstd = 1 / std::sqrt(squares / static_cast<float>(width) + eps);
  const VecF32 r = set(rstd);
  sweep(width, [&](std::size_t i, auto lanes)
                   HWY_ATTR { lanes.store(hn::Mul(hn::Mul(lanes.load(x + i), r), lanes.load(gamma + i)), y + i); });
  return rstd;
}

/// Backward's operands for one row.
template <class S, class T>
struct RmsNormRow {
  const S* x;
  const T *dy, *gamma;
  std::size_t width;
  float rstd;
};

/// Returns mean(g * x_hat). Unless `sums` (C) is null, adds the row's dgamma to `sums`.
template <class S, class T>
HWY_INLINE float rmsnorm_row_sums(const RmsNormRow<S, T>& row, float* sums) {
  const VecF32 rstd = set(row.rstd);
  const auto term = [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 dy_x_hat = hn::Mul(lanes.load(row.dy + i), hn::Mul(lanes.load(row.x + i), rstd));
    if (sums != nullptr) lanes.store(hn::Add(lanes.load(sums + i), dy_x_hat), sums + i);
    return hn::Mul(dy_x_hat, lanes.load(row.gamma + i));
  };
  return sum_of(row.width, term) / static_cast<float>(row.width);
}

/// Writes dx, which may alias dy, x and `skip`. Unless `skip` is null, adds it.
template <class S, class T>
HWY_INLINE void rmsnorm_row_dx(const RmsNormRow<S, T>& row, float mean_gx, S* dx, const S* skip) {
  const VecF32 rstd = set(row.rstd), slope = set(row.rstd * mean_gx);
  sweep(row.width, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 g = hn::Mul(lanes.load(row.gamma + i), lanes.load(row.dy + i));
    const VecF32 centered = hn::NegMulAdd(lanes.load(row.x + i), slope, g);
    const VecF32 before = skip != nullptr ? lanes.load(skip + i) : set(0);
    lanes.store(hn::MulAdd(rstd, centered, before), dx + i);
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
