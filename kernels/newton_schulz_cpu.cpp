// Memory-bound passes between the products of Newton-Schulz iterations.
#include <algorithm>
#include <cmath>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/newton_schulz_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void scale_range(const Tensor& out, const Tensor& in, float factor, Range range) {
  with_float(out.dtype(), [&]<class To>(To) HWY_ATTR {
    with_float(in.dtype(), [&]<class From>(From) HWY_ATTR {
      To* to = out.data<To>() + range.begin;
      const From* from = in.data<From>() + range.begin;
      sweep(range.size(), [=](std::size_t i, auto lanes)
                              HWY_ATTR { lanes.store(hn::Mul(lanes.load(from + i), set(factor)), to + i); });
    });
  });
}

void polynomial_rows(const Tensor& squared, const Tensor& a, const QuinticStep& step, Range rows) {
  const std::int64_t size = squared.size(1);
  with_float(squared.dtype(), [&]<class T>(T) HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      T* to = squared.data<T>() + row * size;
      const T* from = a.data<T>() + row * size;
      const float diagonal = step.a + (step.b * widen(from[row]) + step.c * widen(to[row]));
      sweep(size, [=](std::size_t i, auto lanes) HWY_ATTR {
        const VecF32 linear = hn::Mul(set(step.b), lanes.load(from + i));
        lanes.store(hn::MulAdd(set(step.c), lanes.load(to + i), linear), to + i);
      });
      to[row] = narrow<T>(diagonal);
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void divide_by_norm(Stream& stream, Tensor out, Tensor in, Tensor sum) {
  const auto factor = static_cast<float>(1 / std::max(std::sqrt(*sum.data<double>()), 1e-7));
  const Blocks blocks{out.numel(), kSerialElements};
  parallel_for(stream.threads(), blocks.number(), out.numel(), [&](std::int64_t block) {
    MTL_DISPATCH(scale_range)(out, in, factor, blocks[block]);
  });
}

void quintic_polynomial(Stream& stream, Tensor squared, Tensor a, const QuinticStep& step) {
  parallel_rows(stream.threads(), squared.size(0), squared.size(1), [&](Range rows) {
    MTL_DISPATCH(polynomial_rows)(squared, a, step, rows);
  });
}

}  // namespace mtl::cpu
#endif
