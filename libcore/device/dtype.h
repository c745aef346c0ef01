// Element types in tensors and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/enum_index.h"

namespace mtl {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i64, i32, u32, u16, u8 };

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[] = {4, 8, 2, 2, 8, 4, 4, 2, 1};
  return sizes[enum_index(dtype)];
}

constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16", "int64",
                                   "int32",   "uint32",  "uint16",  "uint8"};
  return names[enum_index(dtype)];
}

/// 16-bit floating-point numbers, as bits: bfloat16 and IEEE 754 binary16. These are for storage only. Arithmetic is in
/// fp32. Use widen() and narrow() to convert.
struct Bf16 {
  std::uint16_t bits;
};
struct Half {
  std::uint16_t bits;
};

constexpr DType dtype_of(std::type_identity<Bf16>) { return DType::bf16; }
constexpr DType dtype_of(std::type_identity<Half>) { return DType::f16; }
constexpr DType dtype_of(std::type_identity<float>) { return DType::f32; }
constexpr DType dtype_of(std::type_identity<double>) { return DType::f64; }
constexpr DType dtype_of(std::type_identity<std::int64_t>) { return DType::i64; }
constexpr DType dtype_of(std::type_identity<std::int32_t>) { return DType::i32; }
constexpr DType dtype_of(std::type_identity<std::uint32_t>) { return DType::u32; }
constexpr DType dtype_of(std::type_identity<std::uint16_t>) { return DType::u16; }
constexpr DType dtype_of(std::type_identity<std::uint8_t>) { return DType::u8; }
/// The DType that stores a C++ type.
template <class T>
constexpr DType dtype_of() {
  return dtype_of(std::type_identity<T>());
}

/// Convert IEEE 754 binary16 and bfloat16 to and from fp32. Conversions from fp32 round to nearest even. NaN stays NaN.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);

inline float widen(float value) { return value; }
inline float widen(Bf16 value) { return bf16_to_f32(value.bits); }
inline float widen(Half value) { return f16_to_f32(value.bits); }
/// Rounds to nearest even.
template <class T>
T narrow(float value) {
  if constexpr (dtype_of<T>() == DType::bf16)
    return {f32_to_bf16(value)};
  else if constexpr (dtype_of<T>() == DType::f16)
    return {f32_to_f16(value)};
  else
    return value;
}

/// Returns true for dtypes that operators support: f32, bf16 and f16.
constexpr bool is_computed(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

/// Calls body(T()), where T is float, Bf16 or Half, depending on `dtype`. is_computed(dtype) must be true.
template <class Body>
decltype(auto) with_float_type(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(Bf16());
  if (dtype == DType::f16) return body(Half());
  return body(float());
}

}  // namespace mtl
