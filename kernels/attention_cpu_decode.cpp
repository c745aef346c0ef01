// One new token against the cache: every key and value is read once and used by all heads of its group.
#include <algorithm>
#include <cmath>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"

#define MTL_SIMD_FILE "kernels/attention_cpu_decode.cpp"
#include "kernels/simd.h"
#include "kernels/attention_cpu_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// scores (R, keys) = scale * q . k
HWY_INLINE void decode_scores(const AttentionGroup& group, float* scores) {
  for (std::int64_t key = 0; key < group.keys; ++key) {
    const float* k = group.k + key * group.kv_stride;
    for (std::int64_t head = 0; head < group.heads; ++head) {
      scores[head * group.keys + key] = dot(group.q + head * group.dim, k, group.dim) * group.scale;
    }
  }
}

/// Scores become probabilities.
HWY_INLINE void decode_softmax(float* scores, std::int64_t keys) {
  float maximum = *std::max_element(scores, scores + keys), total = 0;
  VecF32 shift = set(maximum), sums = set(0);
  std::int64_t i = 0;
  for (; i + kLanes <= keys; i += kLanes) {
    VecF32 p = exp(hn::Sub(hn::LoadU(F32(), scores + i), shift));
    sums = hn::Add(sums, p);
    hn::StoreU(p, F32(), scores + i);
  }
  for (; i < keys; ++i) total += scores[i] = std::exp(scores[i] - maximum);
  float inverse = 1.0f / (total + hn::GetLane(hn::SumOfLanes(F32(), sums)));
  for (i = 0; i < keys; ++i) scores[i] *= inverse;
}

/// y += factor * x
HWY_INLINE void add_scaled(float factor, const float* x, std::int64_t n, float* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::MulAdd(set(factor), hn::LoadU(F32(), x + i), hn::LoadU(F32(), y + i)), F32(), y + i);
  }
  for (; i < n; ++i) y[i] += factor * x[i];
}

void attention_decode_group(const AttentionForward& call, float* scores) {
  const AttentionGroup& group = call.group;
  decode_scores(group, scores);
  for (std::int64_t head = 0; head < group.heads; ++head) decode_softmax(scores + head * group.keys, group.keys);
  std::fill_n(call.out, group.heads * group.dim, 0.0f);
  for (std::int64_t key = 0; key < group.keys; ++key) {
    const float* v = group.v + key * group.kv_stride;
    for (std::int64_t head = 0; head < group.heads; ++head) {
      add_scaled(scores[head * group.keys + key], v, group.dim, call.out + head * group.dim);
    }
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
HWY_EXPORT(attention_decode_group);

void attention_decode(const AttentionForward& call, float* work) { HWY_DYNAMIC_DISPATCH(attention_decode_group)(call, work); }
std::int64_t attention_decode_work(std::int64_t keys, std::int64_t heads) { return round_up(heads * keys, 16); }
}  // namespace mtl::cpu
#endif
