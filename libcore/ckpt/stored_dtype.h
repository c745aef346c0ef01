// Element types as files store them, and the way of floating-point ones from and to fp32.
//
// A safetensors file may hold more types than mtl computes with (device/dtype.h); all of them can be listed and
// copied as bytes, and the four floating-point ones of models can be converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/dtype.h"

namespace mtl {

enum class StoredDType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e5m2fnuz,
  f8_e4m3fnuz,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// Bits of one element: 4, 6, 8, 16, 32 or 64.
int bits_of(StoredDType dtype);
/// The name in a safetensors header: "F32".
std::string name_of(StoredDType dtype);
std::optional<StoredDType> parse_stored_dtype(std::string_view name);

/// The stored type of a tensor in memory.
StoredDType stored_dtype_of(DType dtype);
/// True for f16, bf16, f32 and f64: what a parameter may be stored as.
bool is_model_dtype(StoredDType dtype);
/// "float16", as Hugging Face's config.json and --dtype write it; only for model dtypes.
std::string torch_name_of(StoredDType dtype);
std::optional<StoredDType> parse_torch_dtype(std::string_view name);

/// The number of elements that are infinite or not a number.
std::size_t count_nonfinite(StoredDType dtype, std::span<const std::byte> stored);

/// Elements from storage (any alignment) to fp32; f64 rounds to nearest even. Throws unless is_model_dtype and the
/// sizes agree.
void to_float(StoredDType dtype, std::span<const std::byte> stored, std::span<float> out);
/// One stored type to another: equal ones copy the bits, wider goes to narrower once, rounded to nearest even.
void convert_elements(StoredDType from, std::span<const std::byte> source, StoredDType to, std::span<std::byte> out);
/// Through all types of `path`, one after another, to the last: rounded at each that is narrower.
void convert_through(StoredDType from, std::span<const std::byte> source, std::span<const StoredDType> path,
                     std::span<std::byte> out);

}  // namespace mtl
