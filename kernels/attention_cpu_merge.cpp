// Merges partial results of attention. Memory-bound: reads each result and part once, and writes each result once.
#include <cmath>
#include <limits>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/attention_cpu_merge.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Merges one query's results: adds D elements of `part`, from element `at` on, to those of `out`.
void merge_row(const Tensor& out, const Tensor& part, std::int64_t at, float own, float other) {
  float* sums = out.data<float>() + at;
  with_float(part.dtype(), [&]<class T>(T) HWY_ATTR {
    const T* more = part.data<T>() + at;
    const VecF32 kept = set(own), added = set(other);
    sweep(out.size(3), [=](std::size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::MulAdd(added, lanes.load(more + i), hn::Mul(kept, lanes.load(sums + i))), sums + i);
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void attention_merge(Stream& stream, Tensor out, Tensor logsumexp, Tensor part, Tensor part_logsumexp) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::int64_t positions = out.size(1), heads = out.size(2), dim = out.size(3);
  parallel_rows(stream.threads(), out.row_count(), dim, [&](Range range) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      const std::int64_t head = row % heads, t = row / heads % positions, b = row / heads / positions;
      const std::int64_t at = (b * heads + head) * positions + t;
      float& sum = logsumexp.data<float>()[at];
      const float more = part_logsumexp.data<float>()[at];
      if (more == kNone) continue;  // the query sees none of the part's keys
      const float most = std::max(sum, more), total = most + std::log(std::exp(sum - most) + std::exp(more - most));
      MTL_DISPATCH(merge_row)(out, part, row * dim, std::exp(sum - total), std::exp(more - total));
      sum = total;
    }
  });
}

}  // namespace mtl::cpu
#endif
