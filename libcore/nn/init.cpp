#include "nn/init.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"
#include "device/philox.h"

namespace mtl {

namespace {

// Every product below must be rounded before the addition. CMakeLists.txt therefore compiles this file without fused
// multiply-adds, which would make results differ between machines.

/// Returns term(first), term(first + 2), ..., computed at compile time because divisions are slow.
template <std::size_t N, class Term>
constexpr std::array<double, N> table(int first, Term term) {
  std::array<double, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = term(first + 2 * static_cast<int>(i));
  return out;
}

/// Returns log x for x in (0, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)).
double log_of(double x) {
  static constexpr auto kInverse = table<13>(1, [](int k) { return 1.0 / k; });
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
  for (std::size_t i = kInverse.size(); i-- > 0;) sum = sum * s2 + kInverse[i];
  return 2 * s * sum + exponent * 0.69314718055994530942;
}

/// Computes cos and sin of 2 pi u for u in [0, 1), using the Taylor series on an eighth of the circle.
void circle_point(double u, double* cosine, double* sine) {
  static constexpr auto kCosine = table<8>(2, [](int k) { return -1.0 / (k * (k - 1)); });
  static constexpr auto kSine = table<8>(2, [](int k) { return -1.0 / (k * (k + 1)); });
  double turned = u * 8;
  int octant = static_cast<int>(turned);
  double angle = (turned - octant) * 0.78539816339744830962;  // pi / 4
  if (octant % 2 == 1) angle = 0.78539816339744830962 - angle;
  double a2 = angle * angle, c = 0, s = 0;
  for (std::size_t i = kCosine.size(); i-- > 0;) {
    c = (1 + c) * (a2 * kCosine[i]);
    s = (1 + s) * (a2 * kSine[i]);
  }
  c = 1 + c;
  s = (1 + s) * angle;
  if ((octant + 1) / 2 % 2 == 1) std::swap(c, s);  // octants 1 2 5 6: beyond 45 degrees of an axis
  *cosine = octant >= 2 && octant <= 5 ? -c : c;
  *sine = octant >= 4 ? -s : s;
}

}  // namespace

NormalPair normal_pair(std::uint64_t seed, std::uint32_t site, std::uint64_t counter) {
  auto words = philox({static_cast<std::uint32_t>(seed), site}, seed >> 32, counter);
  // The uniform numbers have 53 bits. The first one is in (0, 1], so that its logarithm exists.
  auto unit = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
  };
  double radius = std::sqrt(-2 * log_of(unit(words[0], words[1]) + 0x1p-53));
  double cosine = 0, sine = 0;
  circle_point(unit(words[2], words[3]), &cosine, &sine);
  return {radius * cosine, radius * sine};
}

namespace {

/// Consecutive elements of the entire tensor, starting with number `first`, that are contiguous in a slice.
struct Run {
  std::int64_t offset, first, count;  // offset in the slice
};

std::vector<Run> runs_of(const Slice& slice, const ParamSpec& spec) {
  constexpr std::int64_t kLongest = 1 << 16;  // limits a run's length, so that threads can share the work
  std::vector<Run> out;
  for_each_overlap(slice, whole_slice(spec.shape), [&](const Overlap& overlap) {
    for (std::int64_t done = 0; done < overlap.count; done += kLongest)
      out.push_back({.offset = overlap.in_a + done,
                     .first = overlap.in_b + done,
                     .count = std::min(kLongest, overlap.count - done)});
  });
  return out;
}

/// T is the element type of `out`. L is the Precision::load type, to which numbers are rounded first.
template <class T, class L>
void draw_normals(T* out, const Slice& slice, const ParamSpec& spec, std::uint64_t seed) {
  const auto stored = [](double drawn) { return narrow<T>(widen(narrow<L>(static_cast<float>(drawn)))); };
  auto site = static_cast<std::uint32_t>(hash_bytes(spec.name.data(), spec.name.size()));
  std::vector<Run> runs = runs_of(slice, spec);
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::int64_t first = runs[r].first, end = first + runs[r].count;
    T* to = out + runs[r].offset - first;  // element e of the entire tensor is to[e]
    for (std::int64_t pair = first / 2; 2 * pair < end; ++pair) {
      NormalPair drawn = normal_pair(seed, site, static_cast<std::uint64_t>(pair));
      if (2 * pair >= first) to[2 * pair] = stored(drawn.first * spec.init_std);
      if (2 * pair + 1 < end) to[2 * pair + 1] = stored(drawn.second * spec.init_std);
    }
  }
}

}  // namespace

void initialize_param(Tensor value, const Slice& slice, const ParamSpec& spec, std::uint64_t seed, DType load) {
  with_float_type(value.dtype(), [&]<class T>(T) {
    T *out = value.data<T>(), *padding = out + slice.count();
    std::fill(out, padding, narrow<T>(spec.init == Init::ones ? 1.0f : 0.0f));
    std::fill(padding, out + value.numel(), narrow<T>(0.0f));
    if (spec.init != Init::normal) return;
    with_float_type(load, [&]<class L>(L) { draw_normals<T, L>(out, slice, spec, seed); });
  });
}

}  // namespace mtl
