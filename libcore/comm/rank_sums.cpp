#include "comm/rank_sums.h"

#define MTL_SIMD_FILE "comm/rank_sums.cpp"
#include "device/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// `out` can be one of the inputs, because we read element i of every input before writing element i.
template <class T>
void sum_by(T* out, const std::byte* const* inputs, std::size_t ranks, std::size_t count) {
  sweep(count, [=](std::size_t i, auto lanes) HWY_ATTR {
    VecF32 sum = lanes.load(reinterpret_cast<const T*>(inputs[0]) + i);
    for (std::size_t r = 1; r < ranks; ++r) sum = hn::Add(sum, lanes.load(reinterpret_cast<const T*>(inputs[r]) + i));
    lanes.store(sum, out + i);
  });
}

void sum_floats(DType dtype, std::byte* out, const std::byte* const* inputs, std::size_t ranks, std::size_t count) {
  with_float(dtype, [=]<class T>(T) HWY_ATTR { sum_by(reinterpret_cast<T*>(out), inputs, ranks, count); });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl {

namespace {

/// Scalar code is fast enough: only a few totals are in fp64.
void sum_doubles(double* out, const std::vector<const std::byte*>& inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    double sum = reinterpret_cast<const double*>(inputs[0])[i];
    for (std::size_t r = 1; r < inputs.size(); ++r) sum += reinterpret_cast<const double*>(inputs[r])[i];
    out[i] = sum;
  }
}

}  // namespace

void check_summable(const Tensor& data) {
  require(data.dtype() == DType::f64 || is_computed(data.dtype()),
          "sums over ranks are of float32, bfloat16, float16 and float64, not of ", name_of(data.dtype()));
}

void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes) {
  std::size_t count = bytes / size_of(dtype);
  if (dtype == DType::f64) return sum_doubles(reinterpret_cast<double*>(out), inputs, count);
  MTL_DISPATCH(sum_floats)(dtype, out, inputs.data(), inputs.size(), count);
}

}  // namespace mtl
#endif
