// Element types as files store them, and conversions between the floating-point types of models.
//
// A safetensors file may hold more types than mtl computes with (device/dtype.h). Readers list all types and copy
// elements as bytes; convert_elements converts between the four floating-point types of models.
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
/// Parses a name of name_of(); empty for any other name.
std::optional<StoredDType> parse_stored_dtype(std::string_view name);

/// The stored type of a tensor in memory.
StoredDType stored_dtype_of(DType dtype);
/// True for the dtypes of stored parameters: f16, bf16, f32 and f64.
bool is_model_dtype(StoredDType dtype);
/// "float16", as in Hugging Face's config.json and --dtype; "" if not is_model_dtype.
std::string torch_name_of(StoredDType dtype);
/// Parses a name of torch_name_of(); empty for any other name.
std::optional<StoredDType> parse_torch_dtype(std::string_view name);

/// The number of elements that are infinite or not a number. Throws unless is_model_dtype.
std::size_t count_nonfinite(StoredDType dtype, std::span<const std::byte> stored);

/// Converts elements of any alignment. Keeps the bits if the dtypes are equal; rounds once, to nearest even, to a
/// narrower dtype. Throws unless both are is_model_dtype and the buffers have the same number of elements.
void convert_elements(StoredDType from, std::span<const std::byte> source, StoredDType to, std::span<std::byte> out);
/// convert_elements to fp32.
void to_float(StoredDType dtype, std::span<const std::byte> stored, std::span<float> out);
/// Converts through all dtypes of `path` in turn, and rounds at each narrower one. `out` has the last dtype.
void convert_through(StoredDType from, std::span<const std::byte> source, std::span<const StoredDType> path,
                     std::span<std::byte> out);

}  // namespace mtl
