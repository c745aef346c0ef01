#include "nn/init.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"

#define MTL_SIMD_FILE "nn/init.cpp"
#include "kernels/simd.h"

// Every product below must be rounded before the addition. CMakeLists.txt therefore compiles this file without fused
// multiply-adds, which would make results differ between machines.

#ifndef MTL_NN_INIT
#define MTL_NN_INIT
namespace mtl {
constexpr std::int64_t kMostDrawn = 1024;  // numbers at a time
}
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using U64 = hn::RebindToUnsigned<F64>;
using VecF64 = hn::Vec<F64>;
using VecU64 = hn::Vec<U64>;

/// Returns term(first), term(first + 2), ..., computed at compile time because divisions are slow.
template <std::size_t N, class Term>
constexpr std::array<double, N> table(int first, Term term) {
  std::array<double, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = term(first + 2 * static_cast<int>(i));
  return out;
}

/// The number in the low 53 bits, times 2^-53.
HWY_INLINE VecF64 unit(VecU64 bits) {
  return hn::Mul(hn::ConvertTo(F64(), hn::BitCast(hn::RebindToSigned<F64>(), bits)), hn::Set(F64(), 0x1p-53));
}

/// Returns log x for x in [2^-53, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)).
HWY_INLINE VecF64 log_of(VecF64 x) {
  static constexpr auto kInverse = table<13>(1, [](int k) { return 1.0 / k; });
  const auto one = hn::Set(F64(), 1.0);
  const auto bits = hn::BitCast(U64(), x);
  const auto mantissa = hn::And(bits, hn::Set(U64(), 0xFFFFFFFFFFFFFull));
  auto m = hn::BitCast(F64(), hn::Or(mantissa, hn::Set(U64(), 0x3FE0000000000000ull)));  // in [1/2, 1)
  auto exponent = hn::Sub(hn::ConvertTo(F64(), hn::BitCast(hn::RebindToSigned<F64>(), hn::ShiftRight<52>(bits))),
                          hn::Set(F64(), 1022.0));
  const auto small = hn::Lt(m, hn::Set(F64(), 0.70710678118654752440));
  m = hn::IfThenElse(small, hn::Add(m, m), m);
  exponent = hn::IfThenElse(small, hn::Sub(exponent, one), exponent);
  const auto s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), s2 = hn::Mul(s, s);
  auto sum = hn::Zero(F64());
  for (std::size_t i = kInverse.size(); i-- > 0;) sum = hn::Add(hn::Mul(sum, s2), hn::Set(F64(), kInverse[i]));
  return hn::Add(hn::Mul(hn::Add(s, s), sum), hn::Mul(exponent, hn::Set(F64(), 0.69314718055994530942)));
}

/// Computes cos and sin of 2 pi u for u = unit(bits), using the Taylor series on an eighth of the circle.
HWY_INLINE void circle_point(VecU64 bits, VecF64* cosine, VecF64* sine) {
  static constexpr auto kCosine = table<8>(2, [](int k) { return -1.0 / (k * (k - 1)); });
  static constexpr auto kSine = table<8>(2, [](int k) { return -1.0 / (k * (k + 1)); });
  const auto one = hn::Set(F64(), 1.0), eighth = hn::Set(F64(), 0.78539816339744830962);  // pi / 4
  // The octant's number is in bits 52, 51 and 50. Each of these vectors has one of them as its sign.
  const auto top = hn::BitCast(F64(), hn::ShiftLeft<11>(bits));
  const auto middle = hn::BitCast(F64(), hn::ShiftLeft<12>(bits));
  const auto low = hn::BitCast(F64(), hn::ShiftLeft<13>(bits));
  const auto in_octant = hn::And(bits, hn::Set(U64(), 0x3FFFFFFFFFFFFull));
  auto angle = hn::Mul(hn::Mul(unit(in_octant), hn::Set(F64(), 8.0)), eighth);
  angle = hn::IfNegativeThenElse(low, hn::Sub(eighth, angle), angle);
  const auto a2 = hn::Mul(angle, angle);
  auto c = hn::Zero(F64()), s = c;
  for (std::size_t i = kCosine.size(); i-- > 0;) {
    c = hn::Mul(hn::Add(one, c), hn::Mul(a2, hn::Set(F64(), kCosine[i])));
    s = hn::Mul(hn::Add(one, s), hn::Mul(a2, hn::Set(F64(), kSine[i])));
  }
  c = hn::Add(one, c);
  s = hn::Mul(hn::Add(one, s), angle);
  const auto swapped = hn::Xor(middle, low);  // octants 1 2 5 6: beyond 45 degrees of an axis
  const auto sign = hn::SignBit(F64());
  *cosine = hn::Xor(hn::IfNegativeThenElse(swapped, s, c), hn::And(hn::Xor(top, middle), sign));
  *sine = hn::Xor(hn::IfNegativeThenElse(swapped, c, s), hn::And(top, sign));
}

void normals(std::uint64_t seed, std::uint32_t site, std::uint64_t first, std::size_t pairs, double* out) {
  constexpr std::size_t kBlocks = 64;
  HWY_ALIGN std::uint64_t words[2 * kBlocks];
  HWY_ALIGN double drawn[2 * kBlocks];
  const std::size_t step = hn::Lanes(F64());
  // A pair of words makes 53 bits.
  const auto bits_of = [](VecU64 pair) HWY_ATTR {
    return hn::Xor(hn::ShiftLeft<21>(hn::And(pair, hn::Set(U64(), 0xFFFFFFFFull))), hn::ShiftRight<43>(pair));
  };
  for (std::size_t done = 0; done < pairs; done += kBlocks) {
    philox_blocks({static_cast<std::uint32_t>(seed), site}, seed >> 32, first + done, kBlocks,
                  reinterpret_cast<std::uint32_t*>(words));
    for (std::size_t i = 0; i < kBlocks; i += step) {
      VecU64 a, b;
      hn::LoadInterleaved2(U64(), words + 2 * i, a, b);
      // Beyond 0, where the logarithm exists.
      const auto u = hn::Add(unit(bits_of(a)), hn::Set(F64(), 0x1p-53));
      const auto radius = hn::Sqrt(hn::Mul(hn::Set(F64(), -2.0), log_of(u)));
      VecF64 cosine, sine;
      circle_point(bits_of(b), &cosine, &sine);
      hn::StoreInterleaved2(hn::Mul(radius, cosine), hn::Mul(radius, sine), F64(), drawn + 2 * i);
    }
    std::memcpy(out + 2 * done, drawn, std::min(kBlocks, pairs - done) * 2 * sizeof(double));
  }
}

/// Writes drawn[i] * deviation, rounded to fp32, then to `load`, to the elements of `to` from `first` on.
void store_scaled(const double* drawn, std::size_t n, double deviation, DType load, const Tensor& to,
                  std::int64_t first) {
  using Narrow = hn::Rebind<float, F64>;
  HWY_ALIGN float scaled[kMostDrawn];
  for (std::size_t i = 0; i < kMostDrawn; i += hn::Lanes(F64()))
    hn::Store(hn::DemoteTo(Narrow(), hn::Mul(hn::LoadU(F64(), drawn + i), hn::Set(F64(), deviation))), Narrow(),
              scaled + i);
  with_float(load, [&]<class L>(L) HWY_ATTR {
    with_float(to.dtype(), [&]<class T>(T) HWY_ATTR {
      T* out = to.data<T>() + first;
      sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR {
        HWY_ALIGN L loaded[HWY_MAX_BYTES / sizeof(float)];
        store_vector(lanes.load(scaled + i), loaded);
        lanes.store(load_vector(loaded), out + i);
      });
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl {

void normal_numbers(std::uint64_t seed, std::uint32_t site, std::uint64_t first, std::size_t pairs, double* out) {
  MTL_DISPATCH(normals)(seed, site, first, pairs, out);
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

/// Fills `values` with normal numbers.
void draw_normals(const std::vector<Tensor>& values, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                  DType load) {
  const auto site = static_cast<std::uint32_t>(hash_bytes(spec.name.data(), spec.name.size()));
  const std::vector<Run> runs = runs_of(slice, spec);
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < runs.size(); ++r) {
    HWY_ALIGN double drawn[kMostDrawn] = {};
    const auto [offset, first, count] = runs[r];
    const std::int64_t end = first + count;
    // The second number of a pair may be the first element of a run, or the first number the last.
    for (std::int64_t pair = first / 2; 2 * pair < end; pair += kMostDrawn / 2) {
      const std::int64_t from = std::max(first, 2 * pair), until = std::min(end, 2 * pair + kMostDrawn);
      normal_numbers(seed, site, static_cast<std::uint64_t>(pair), static_cast<std::size_t>(until - 2 * pair + 1) / 2,
                     drawn);
      if (from > 2 * pair) std::copy(drawn + 1, std::end(drawn), drawn);
      for (const Tensor& value : values)
        MTL_DISPATCH(store_scaled)(drawn, until - from, spec.init_std, load, value, offset + from - first);
    }
  }
}

}  // namespace

void initialize_param(const std::vector<Tensor>& values, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                      DType load) {
  for (const Tensor& value : values) {
    with_float_type(value.dtype(), [&]<class T>(T) {
      T *out = value.data<T>(), *padding = out + slice.count();
      if (spec.init != Init::normal) std::fill(out, padding, narrow<T>(spec.init == Init::ones ? 1.0f : 0.0f));
      std::fill(padding, out + value.numel(), narrow<T>(0.0f));
    });
  }
  if (spec.init == Init::normal) draw_normals(values, slice, spec, seed, load);
}

}  // namespace mtl
#endif
