// Statistics take two passes over a row; the second reads it from the cache. Terms are added in fp32 within stretches
// of 1024 columns, and the stretches' sums in fp64, so that the rounding errors of 50,000 terms do not accumulate.
#include <cmath>
#include <limits>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/cross_entropy_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <class T>
float max_of(const T* z, std::size_t n) {
  const std::size_t step = hn::Lanes(F32());
  const FullLanes lanes;
  VecF32 a = set(kLowest), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = hn::Max(a, lanes.load(z + i));
    b = hn::Max(b, lanes.load(z + i + step));
    c = hn::Max(c, lanes.load(z + i + 2 * step));
    d = hn::Max(d, lanes.load(z + i + 3 * step));
  }
  sweep(n - i, [&](std::size_t j, auto part) HWY_ATTR { a = hn::Max(a, part.load(z + i + j, kLowest)); });
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(hn::Max(a, b), hn::Max(c, d))));
}

template <class T>
double sum_of_exp(const T* z, std::size_t n, float max) {
  constexpr std::size_t kStretch = 1024;
  double sum = 0;
  for (std::size_t at = 0; at < n; at += kStretch) {
    sum += double(sum_of(HWY_MIN(kStretch, n - at), [&](std::size_t i, auto lanes) HWY_ATTR {
      return lanes.keep(exp(hn::Sub(lanes.load(z + at + i), set(max))));
    }));
  }
  return sum;
}

/// Writes stats (3) of a row whose first `valid` elements are not padding. `label` may be outside of it.
void stats_of_row(const Tensor& row, std::int64_t valid, std::int64_t label, float* stats) {
  with_float(row.dtype(), [&]<class T>(T) HWY_ATTR {
    const T* z = row.data<T>();
    stats[0] = max_of(z, valid);
    stats[1] = static_cast<float>(sum_of_exp(z, valid, stats[0]));
    stats[2] = label >= 0 && label < valid ? widen(z[label]) : 0.0f;
  });
}

/// dz = weight (scale softmax(z) - onehot(label)), and 0 in padding. `gradient` can be `row`.
void gradient_of_row(const Tensor& gradient, const Tensor& row, std::int64_t valid, std::int64_t label,
                     const float* stats, float weight, float scale) {
  with_stream(row.dtype(), gradient.dtype(), [&]<class L, class T>(L, T) HWY_ATTR {
    const L* z = row.data<L>();
    T* dz = gradient.data<T>();
    const VecF32 max = set(stats[0]), factor = set(weight * scale / stats[1]);
    const auto probability = [=](VecF32 logit) HWY_ATTR { return hn::Mul(exp(hn::Sub(logit, max)), factor); };
    const bool hit = label >= 0 && label < valid;
    const float of_label = hit ? hn::GetLane(probability(set(widen(z[label])))) - weight : 0.0f;
    sweep(valid, [=](std::size_t i, auto lanes) HWY_ATTR { lanes.store(probability(lanes.load(z + i)), dz + i); });
    if (hit) dz[label] = narrow<T>(of_label);
    std::fill(dz + valid, dz + gradient.numel(), T{});
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

/// Calls body(row) for every row of logits.
template <class Body>
void over_rows(Stream& stream, const Tensor& logits, const Body& body) {
  parallel_for(stream.threads(), logits.size(0), logits.numel(), body);
}

/// Writes one row of stats.
void find_stats(float* stats, const Tensor& logits, const Tensor& labels, const VocabSlice& slice, std::int64_t row) {
  MTL_DISPATCH(stats_of_row)(logits.rows(row, 1), slice.valid, labels.data<std::int32_t>()[row] - slice.begin, stats);
}

float loss_of(const float* stats) {
  return static_cast<float>(std::log(double(stats[1])) + (double(stats[0]) - double(stats[2])));
}

/// Writes one row of dlogits, and its z-loss. `weight` includes the loss scale.
void find_gradient(const Tensor& dlogits, const Tensor& logits, const float* stats, const Tensor& labels, float weight,
                   const VocabSlice& slice, const ZLoss& z_loss, std::int64_t row) {
  float scale = 1;  // of the softmax
  if (z_loss.coefficient != 0) {
    const double log_sum_exp = std::log(double(stats[1])) + double(stats[0]), coefficient = z_loss.coefficient;
    z_loss.losses.data<float>()[row] = static_cast<float>(coefficient * log_sum_exp * log_sum_exp);
    scale = static_cast<float>(1 + 2 * coefficient * log_sum_exp);
  }
  MTL_DISPATCH(gradient_of_row)
  (dlogits.rows(row, 1), logits.rows(row, 1), slice.valid, labels.data<std::int32_t>()[row] - slice.begin, stats,
   weight, scale);
}

float loss_scale_of(const StepState* state) { return static_cast<float>(state == nullptr ? 1.0 : state->loss_scale); }
}  // namespace

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice) {
  over_rows(stream, logits,
            [&](std::int64_t row) { find_stats(stats.data<float>() + 3 * row, logits, labels, slice, row); });
}

void cross_entropy_combine(Stream&, Tensor stats, Tensor parts) {
  const std::int64_t rows = stats.size(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto part = [&](std::int64_t p) { return parts.data<float>() + (p * rows + row) * 3; };
    float max = part(0)[0], target = 0;
    for (std::int64_t p = 1; p < parts.size(0); ++p) max = std::max(max, part(p)[0]);
    double sum = 0;
    for (std::int64_t p = 0; p < parts.size(0); ++p) {
      // A slice that is all padding has sum 0 and maximum -inf, so its factor is 0.
      sum += double(part(p)[1]) * std::exp(double(part(p)[0]) - double(max));
      target += part(p)[2];
    }
    float* out = stats.data<float>() + 3 * row;
    out[0] = max;
    out[1] = static_cast<float>(sum);
    out[2] = target;
  }
}

void cross_entropy_loss(Stream&, Tensor losses, Tensor stats) {
  for (std::int64_t row = 0; row < losses.numel(); ++row)
    losses.data<float>()[row] = loss_of(stats.data<float>() + 3 * row);
}

void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state, const ZLoss& z_loss) {
  const float loss_scale = loss_scale_of(state);
  over_rows(stream, logits, [&](std::int64_t row) {
    find_gradient(dlogits, logits, stats.data<float>() + 3 * row, labels, loss_scale * weights.data<float>()[row],
                  slice, z_loss, row);
  });
}

void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state, const ZLoss& z_loss) {
  const float loss_scale = loss_scale_of(state);
  const VocabSlice whole{0, valid};
  over_rows(stream, logits, [&](std::int64_t row) {
    float stats[3];
    find_stats(stats, logits, labels, whole, row);
    losses.data<float>()[row] = loss_of(stats);
    find_gradient(dlogits, logits, stats, labels, loss_scale * weights.data<float>()[row], whole, z_loss, row);
  });
}

void sum_losses(Stream&, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  const float *loss = losses.data<float>(), *weight = weights.data<float>();
  double total = mode == GradMode::accumulate ? *sum.data<double>() : 0;
  for (std::int64_t i = 0; i < losses.numel(); ++i) total += weight[i] != 0 ? double{loss[i]} : 0;
  *sum.data<double>() = total;
}

}  // namespace mtl::cpu
#endif
