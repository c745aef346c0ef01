// Attention for one new token over the KV cache. Each key and value is read once and used for all heads in its group.
#include <hwy/cache_control.h>

#include <algorithm>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"

#define MTL_SIMD_FILE "kernels/attention_cpu_decode.cpp"
#include "kernels/simd.h"

#include "kernels/attention_cpu_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Prefetches the row that we read kAhead rows later. A group's rows may be pages apart, and hardware does not prefetch
/// across pages.
template <class T>
HWY_INLINE void prefetch_row(const AttentionGroup& group, const HeadRows& rows, std::int64_t row) {
  constexpr std::int64_t kAhead = 16, kLine = 64 / sizeof(T);
  const T* ahead = rows.row<T>(std::min(row + kAhead, group.keys - 1));
  for (std::int64_t d = 0; d < group.dim; d += kLine) hwy::Prefetch(ahead + d);
}

/// scores (R, keys) = scale * q . k
template <class T>
HWY_INLINE void decode_scores(const AttentionGroup& group, const DecodeWork& work) {
  copy_scaled(group.q.row<T>(0), group.heads * group.dim, 1.0f, work.q);
  for (std::int64_t key = 0; key < group.keys; ++key) {
    prefetch_row<T>(group, group.k, key);
    for (std::int64_t head = 0; head < group.heads; ++head) {
      work.scores[head * group.keys + key] =
          dot(work.q + head * group.dim, group.k.row<T>(key), group.dim) * group.scale;
    }
  }
}

/// Turns scores into probabilities.
HWY_INLINE void decode_softmax(float* scores, std::int64_t keys) {
  const std::size_t n = keys;
  const VecF32 maximum = set(*std::max_element(scores, scores + keys));
  sweep(n, [&](std::size_t i, auto lanes)
               HWY_ATTR { lanes.store(exp(hn::Sub(lanes.load(scores + i), maximum)), scores + i); });
  const VecF32 inverse = set(1 / sum_of(n, [&](std::size_t i, auto lanes) HWY_ATTR { return lanes.load(scores + i); }));
  sweep(n,
        [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(hn::Mul(lanes.load(scores + i), inverse), scores + i); });
}

/// out += the sum over kKeys keys of probability * v
template <int kKeys, class T>
HWY_INLINE void add_values(const AttentionGroup& group, std::int64_t key, const float* probabilities, float* out) {
  const T* v = group.v.row<T>(key);
  sweep(group.dim, [&](std::size_t d, auto lanes) HWY_ATTR {
    VecF32 sum = lanes.load(out + d);
    for (int i = 0; i < kKeys; ++i)
      sum = hn::MulAdd(set(probabilities[key + i]), lanes.load(v + i * group.v.stride + d), sum);
    lanes.store(sum, out + d);
  });
}

void attention_decode_group(const AttentionForward& call, float* area) {
  with_float(call.group.dtype, [&]<class T>(T) HWY_ATTR {
    const AttentionGroup& group = call.group;
    const DecodeWork work{WorkArea(area), group.keys, group.heads, group.dim};
    decode_scores<T>(group, work);
    for (std::int64_t head = 0; head < group.heads; ++head) decode_softmax(work.scores + head * group.keys, group.keys);
    std::fill_n(work.out, group.heads * group.dim, 0.0f);
    std::int64_t key = 0;
    for (; key + 4 <= group.keys; key += 4) {  // four at a time: a quarter as many reads and writes of `out`
      for (std::int64_t i = 0; i < 4; ++i) prefetch_row<T>(group, group.v, key + i);
      for (std::int64_t head = 0; head < group.heads; ++head) {
        add_values<4, T>(group, key, work.scores + head * group.keys, work.out + head * group.dim);
      }
    }
    for (; key < group.keys; ++key) {
      for (std::int64_t head = 0; head < group.heads; ++head) {
        add_values<1, T>(group, key, work.scores + head * group.keys, work.out + head * group.dim);
      }
    }
    copy_scaled(work.out, group.heads * group.dim, 1.0f, call.out.row<T>(0));
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void decode_group(const AttentionForward& call, float* work) { MTL_DISPATCH(attention_decode_group)(call, work); }
}  // namespace mtl::cpu
#endif
