// Element types of stored tensors, and conversions between models' floating-point types.
//
// A safetensors file may contain types that mtl does not compute with (device/dtype.h). Readers accept all types and
// copy elements as bytes. convert_elements() converts between the four floating-point types of models.
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

/// Returns the number of bits per element: 4, 6, 8, 16, 32 or 64.
int bits_of(StoredDType dtype);
/// Returns the type's name in a safetensors header, such as "F32".
std::string name_of(StoredDType dtype);
/// Parses a name written by name_of(). Empty for any other name.
std::optional<StoredDType> parse_stored_dtype(std::string_view name);

/// Returns the stored type that corresponds to a dtype in memory.
StoredDType stored_dtype_of(DType dtype);
/// True for the dtypes that stored parameters can have: f16, bf16, f32 and f64.
bool is_model_dtype(StoredDType dtype);
/// Returns the type's name in Hugging Face's config.json and in --dtype, such as "float16", or "" unless `dtype` is a
/// model dtype.
std::string torch_name_of(StoredDType dtype);
/// Parses a name written by torch_name_of(). Empty for any other name.
std::optional<StoredDType> parse_torch_dtype(std::string_view name);

/// Returns the number of elements that are infinite or NaN. Throws unless `dtype` is a model dtype.
std::size_t count_nonfinite(StoredDType dtype, std::span<const std::byte> stored);

/// Converts elements; the buffers need not be aligned. If the dtypes are equal, copies the bits. Otherwise, rounds each
/// element at most once, to nearest even. Throws unless both are model dtypes and the buffers have the same number of
/// elements.
void convert_elements(StoredDType from, std::span<const std::byte> source, StoredDType to, std::span<std::byte> out);
/// Converts elements to fp32 with convert_elements().
void to_float(StoredDType dtype, std::span<const std::byte> stored, std::span<float> out);
/// True if every element of `wide`, rounded to `dtype`, equals the one in `stored`. All NaN are equal. Throws like
/// convert_elements().
bool rounds_to(StoredDType from, std::span<const std::byte> wide, StoredDType dtype, std::span<const std::byte> stored);
/// Converts elements to each dtype in `path` in turn, rounding at each narrower dtype. `out` receives elements of the
/// last dtype. Throws if `path` is empty.
void convert_through(StoredDType from, std::span<const std::byte> source, std::span<const StoredDType> path,
                     std::span<std::byte> out);

}  // namespace mtl
