// Portable SIMD for operators, chosen at run time: Highway, and a few functions that operators share.
//
// A file that uses this header is compiled once per instruction set, as base/simd.h describes. Include this header
// instead of base/simd.h:
//
//   #define MTL_SIMD_FILE "kernels/example_cpu.cpp"  // its own name
//   #include "kernels/simd.h"                        // after every other include
//
//   HWY_BEFORE_NAMESPACE();
//   namespace mtl::HWY_NAMESPACE {
//   void negate(float* x, std::size_t n) {           // plain loops over vectors; no threads here
//     sweep(n, [=](std::size_t i, auto lanes) HWY_ATTR { lanes.store(hn::Neg(lanes.load(x + i)), x + i); });
//   }
//   }
//   HWY_AFTER_NAMESPACE();
//
// Operands are read with lanes.load(), which widens bf16 and f16 to fp32, and written with lanes.store(), which rounds
// to nearest even. All arithmetic is fp32 or wider. If its operands have different dtypes, a loop is a template over
// the element types, which with_float() or with_stream() chooses once per call. Sums use all lanes in a vector, so
// their bits depend on the instruction set, but never on the thread count.

// No include guard: Highway reads this file again for every instruction set.
#ifndef MTL_KERNELS_SIMD
#define MTL_KERNELS_SIMD
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/philox.h"
#endif

#include "device/simd.h"

#if defined(MTL_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_SIMD_TOGGLE
#undef MTL_SIMD_TOGGLE
#else
#define MTL_SIMD_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Calls body(S(), T()), where S is the residual stream's element type and T is a layer's compute type. S equals T, or
/// S is fp32 and T is narrower (kernels/stream_types.h).
template <class Body>
HWY_INLINE void with_stream(DType stream, DType compute, const Body& body) {
  if (stream == compute) return with_float(compute, [&](auto t) HWY_ATTR { body(t, t); });
  if (compute == DType::bf16) return body(float(), Bf16());
  return body(float(), Half());
}

/// Sums term(i, lanes) over [0, n), four vectors at a time. For a partial vector, the term must be zero beyond `lanes`.
template <class Term>
HWY_INLINE float sum_of(std::size_t n, const Term& term) {
  const std::size_t step = hn::Lanes(F32());
  VecF32 a = set(0), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = hn::Add(a, term(i, FullLanes{}));
    b = hn::Add(b, term(i + step, FullLanes{}));
    c = hn::Add(c, term(i + 2 * step, FullLanes{}));
    d = hn::Add(d, term(i + 3 * step, FullLanes{}));
  }
  for (; i + step <= n; i += step) a = hn::Add(a, term(i, FullLanes{}));
  if (i < n) b = hn::Add(b, term(i, PartLanes{n - i}));
  return hn::GetLane(hn::SumOfLanes(F32(), hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

/// Returns e^x for x in [-87.3, 88] with a relative error below 2e-7. A NaN remains NaN. With a minimax polynomial q of
/// degree 4 (error 3e-9):
///   e^x = 2^n e^r, x = n ln 2 + r, e^r = 1 + r + r^2 q(r)
/// Adding 1.5 * 2^23 rounds x / ln 2 to n and leaves n in the low bits, from which we shift n into the exponent.
HWY_INLINE VecF32 exp_in_range(VecF32 x) {
  const VecF32 rounder = set(12582912.0f);
  const VecF32 shifted = hn::MulAdd(x, set(1.44269504f), rounder);
  const VecF32 n = hn::Sub(shifted, rounder);
  const VecF32 r = hn::NegMulAdd(n, set(-2.12194440e-4f), hn::NegMulAdd(n, set(0.693359375f), x));  // ln 2 in two parts
  VecF32 q = hn::MulAdd(set(0.0013814540579915047f), r, set(0.00836874544620514f));
  q = hn::MulAdd(q, r, set(0.04166838899254799f));
  q = hn::MulAdd(q, r, set(0.1666652113199234f));
  q = hn::MulAdd(q, r, set(0.4999999403953552f));
  const VecF32 y = hn::MulAdd(hn::Mul(r, r), q, hn::Add(r, set(1)));
  return hn::BitCast(F32(), hn::Add(hn::BitCast(I32(), y), hn::ShiftLeft<23>(hn::BitCast(I32(), shifted))));
}

/// Like exp_in_range(), but for all x <= 88, including -inf. Returns 0 for x below -87.3.
HWY_INLINE VecF32 exp(VecF32 x) { return hn::IfThenZeroElse(hn::Lt(x, set(-87.3f)), exp_in_range(x)); }

/// Writes the words of philox(key, sample, first_block + i) for i in [0, blocks) to `out`, four per block.
inline void philox_blocks(PhiloxKey key, std::uint64_t sample, std::uint64_t first_block, std::size_t blocks,
                          std::uint32_t* out) {
  const hn::ScalableTag<std::uint64_t> d64;  // each word is in a lane's low half; the high half is ignored
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const std::size_t step = hn::Lanes(d64);
  const auto multiply = [&](auto a, std::uint32_t b)
                            HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b)); };
  HWY_ALIGN std::uint64_t low[HWY_MAX_BYTES / 8], high[HWY_MAX_BYTES / 8];
  for (std::size_t i = 0; i < blocks; i += step) {
    const auto block = hn::Add(hn::Set(d64, first_block + i), hn::Iota(d64, 0));
    auto c0 = block, c1 = hn::ShiftRight<32>(block);
    auto c2 = hn::Set(d64, sample), c3 = hn::Set(d64, sample >> 32);
    std::uint32_t k0 = key.seed, k1 = key.site;
    for (int round = 0; round < 10; ++round) {
      const auto product0 = multiply(c0, 0xD2511F53), product2 = multiply(c2, 0xCD9E8D57);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product2), c1), hn::Set(d64, std::uint64_t{k0}));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d64, std::uint64_t{k1}));
      c1 = product2;
      c3 = product0;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    const auto mask = hn::Set(d64, 0xFFFFFFFFu);
    hn::Store(hn::Or(hn::And(c0, mask), hn::ShiftLeft<32>(c1)), d64, low);
    hn::Store(hn::Or(hn::And(c2, mask), hn::ShiftLeft<32>(c3)), d64, high);
    for (std::size_t j = 0; j < step && i + j < blocks; ++j) {
      std::memcpy(out + 4 * (i + j), &low[j], 8);
      std::memcpy(out + 4 * (i + j) + 2, &high[j], 8);
    }
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
