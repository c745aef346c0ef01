// Copies heads between tensors. Memory-bound: every element is read once and written once.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/head_slice_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Copies, or adds, n elements at element `from_at` to element `to_at`.
void copy_elements(const Tensor& to, std::int64_t to_at, const Tensor& from, std::int64_t from_at, std::size_t n,
                   GradMode mode) {
  with_float(to.dtype(), [&]<class To>(To) HWY_ATTR {
    with_float(from.dtype(), [&]<class From>(From) HWY_ATTR {
      To* out = to.data<To>() + to_at;
      const From* in = from.data<From>() + from_at;
      if (mode == GradMode::overwrite)
        sweep(n, [=](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(in + i), out + i); });
      else
        sweep(n, [=](std::size_t i, auto lanes)
                     HWY_ATTR { lanes.store(hn::Add(lanes.load(out + i), lanes.load(in + i)), out + i); });
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void copy_heads(Stream& stream, const HeadSlice& to, const HeadSlice& from, const HeadCopy& how) {
  const std::int64_t positions = std::min(to.tensor.size(1), from.tensor.size(1)), groups = to.tensor.size(2);
  const std::int64_t width = to.count * to.tensor.size(4), rows = to.tensor.size(0) * positions;
  const auto place = [&](const HeadSlice& slice, const SequencePart& part, std::int64_t row, std::int64_t group) {
    const Tensor& t = slice.tensor;
    const std::int64_t position = part.position(row % positions, positions);
    return (((row / positions * t.size(1) + position) * groups + group) * t.size(3) + slice.first) * t.size(4);
  };
  parallel_rows(stream.threads(), rows, groups * width, [&](Range range) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      for (std::int64_t group = 0; group < groups; ++group) {
        MTL_DISPATCH(copy_elements)
        (to.tensor, place(to, how.to, row, group), from.tensor, place(from, how.from, row, group), width, how.mode);
      }
    }
  });
}

}  // namespace mtl::cpu
#endif
