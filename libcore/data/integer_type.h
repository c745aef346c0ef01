// The integer types in which files store token ids, and conversion between them.
//
// DataType (data/indexed_dataset.h) lists the types of Megatron's .idx. Files of other tools also use u32 and u64,
// which an .idx cannot name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/indexed_dataset.h"

namespace mtl {

struct IntegerType {
  int bytes;  // 1, 2, 4 or 8
  bool is_signed;
  bool operator==(const IntegerType&) const = default;
};

inline constexpr IntegerType kU16{2, false}, kU32{4, false}, kI32{4, true}, kI64{8, true};

/// Returns a type's short name, such as "u16".
std::string name_of(IntegerType type);
/// Returns nullopt if `name` is not one of u8, i8, u16, i16, u32, i32, u64 and i64.
std::optional<IntegerType> parse_integer_type(std::string_view name);

/// Returns a stored type as an integer type. is_integer(type) must be true.
IntegerType integer_type(DataType type);
/// Returns the type with which an .idx names `type`, or nullopt for u32 and u64.
std::optional<DataType> indexed_type(IntegerType type);

/// Inclusive bounds of ids.
struct IdRange {
  std::int64_t lowest, highest;
};
/// Returns all values of a type. The highest u64 is cut off at 2^63 - 1.
IdRange range_of(IntegerType type);
/// Returns the ids in both ranges.
IdRange common_range(IdRange a, IdRange b);

/// Returns the position of the first of `tokens`, stored as `type`, that is not in `range`, or nullopt. `range` must
/// include 0.
std::optional<std::size_t> find_outside(IntegerType type, std::span<const std::byte> tokens, IdRange range);
/// Writes `tokens`, all of which must be in both types' ranges, at `out`, in the type `to`.
void convert_ids(IntegerType from, std::span<const std::byte> tokens, IntegerType to, std::byte* out);
/// How many tokens to convert at a time: few enough for a processor's cache.
inline constexpr std::size_t kConversionTokens = 1 << 17;
/// Returns the decimal value of one of `tokens`, for messages.
std::string token_text(IntegerType type, std::span<const std::byte> tokens, std::size_t position);

/// Calls visit(T{}), where T is the C++ type for `type`.
template <class Visit>
auto visit_integer(IntegerType type, const Visit& visit) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? visit(std::int8_t{}) : visit(std::uint8_t{});
    case 2:
      return type.is_signed ? visit(std::int16_t{}) : visit(std::uint16_t{});
    case 4:
      return type.is_signed ? visit(std::int32_t{}) : visit(std::uint32_t{});
    case 8:
      return type.is_signed ? visit(std::int64_t{}) : visit(std::uint64_t{});
  }
  fail(Exit::failure, "no integer type has ", type.bytes, " bytes");
}

}  // namespace mtl
