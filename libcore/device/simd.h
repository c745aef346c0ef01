// fp32 vectors whose elements are stored as float, Bf16 or Half, and loops over arrays of these types.
//
// As described in base/simd.h, a file that uses this header is compiled once per instruction set. It must include this
// header instead of base/simd.h:
//
//   #define MTL_SIMD_FILE "comm/example.cpp"  // its own name, as it would be included
//   #include "device/simd.h"                  // after every other include
//
// Loads widen bf16 and f16 to fp32. Stores round to nearest even.

// No include guard: Highway reads this file again for every instruction set.
#ifndef MTL_DEVICE_SIMD
#define MTL_DEVICE_SIMD
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/dtype.h"
#endif

#include "base/simd.h"

#if defined(MTL_DEVICE_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_DEVICE_SIMD_TOGGLE
#undef MTL_DEVICE_SIMD_TOGGLE
#else
#define MTL_DEVICE_SIMD_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using VecF32 = hn::Vec<F32>;

HWY_INLINE VecF32 set(float value) { return hn::Set(F32(), value); }

using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;

HWY_INLINE VecF32 load_vector(const float* from) { return hn::LoadU(F32(), from); }
HWY_INLINE void store_vector(VecF32 v, float* to) { hn::StoreU(v, F32(), to); }

/// bf16 is the upper half of fp32.
HWY_INLINE VecF32 load_vector(const Bf16* from) {
  const auto bits = hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

/// Rounds to nearest even, like f32_to_bf16(). We avoid the conversion instructions, because they flush subnormal
/// numbers to zero. We use Not(Eq) because Highway's Ne is false for NaN.
HWY_INLINE void store_vector(VecF32 v, Bf16* to) {
  const auto bits = hn::BitCast(U32(), v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(U32(), 0x400000u));
  const auto is_nan = hn::RebindMask(U32(), hn::Not(hn::Eq(v, v)));
  const auto upper = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), upper)), U16(), reinterpret_cast<std::uint16_t*>(to));
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using F16 = hn::Rebind<hwy::float16_t, F32>;
HWY_INLINE VecF32 load_vector(const Half* from) {
  return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE void store_vector(VecF32 v, Half* to) {
  hn::StoreU(hn::DemoteTo(F16(), v), F16(), reinterpret_cast<hwy::float16_t*>(to));
}
#else  // no conversion instructions, convert one element at a time
HWY_INLINE VecF32 load_vector(const Half* from) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  for (std::size_t i = 0; i < hn::Lanes(F32()); ++i) lanes[i] = widen(from[i]);
  return hn::Load(F32(), lanes);
}
HWY_INLINE void store_vector(VecF32 v, Half* to) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, F32(), lanes);
  for (std::size_t i = 0; i < hn::Lanes(F32()); ++i) to[i] = narrow<Half>(lanes[i]);
}
#endif

/// Loads and stores full vectors. T is float, Bf16 or Half.
struct FullLanes {
  template <class T>
  HWY_INLINE VecF32 load(const T* from, float = 0) const {
    return load_vector(from);
  }
  template <class T>
  HWY_INLINE void store(VecF32 v, T* to) const {
    store_vector(v, to);
  }
  HWY_INLINE VecF32 keep(VecF32 v) const { return v; }
};

/// Loads and stores only the first `count` lanes, for the end of a row. Does not access memory beyond them.
struct PartLanes {
  std::size_t count;
  template <class T>
  HWY_INLINE VecF32 load(const T* from, float beyond = 0) const {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)];
    store_vector(set(beyond), lanes);
    std::memcpy(lanes, from, count * sizeof(T));
    return load_vector(lanes);
  }
  template <class T>
  HWY_INLINE void store(VecF32 v, T* to) const {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)];
    store_vector(v, lanes);
    std::memcpy(to, lanes, count * sizeof(T));
  }
  /// Returns `v` with the other lanes set to zero.
  HWY_INLINE VecF32 keep(VecF32 v) const { return hn::IfThenElseZero(hn::FirstN(F32(), count), v); }
};

/// Calls body(T()), where T is float, Bf16 or Half, depending on `dtype`. `body` is compiled once per type.
template <class Body>
HWY_INLINE void with_float(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(Bf16());
  if (dtype == DType::f16) return body(Half());
  return body(float());
}

/// Calls body(i, lanes) for every vector in [0, n), where i is the index of the vector's first element. `lanes` is
/// FullLanes for full vectors, and PartLanes for a partial vector at the end.
template <class Body>
HWY_INLINE void sweep(std::size_t n, const Body& body) {
  const std::size_t step = hn::Lanes(F32());
  std::size_t i = 0;
  for (; i + step <= n; i += step) body(i, FullLanes{});
  if (i < n) body(i, PartLanes{n - i});
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
