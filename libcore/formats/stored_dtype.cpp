#include "formats/stored_dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/enum_index.h"
#include "base/error.h"

namespace mtl {

namespace {

struct TypeInfo {
  const char* name;
  const char* torch_name;  // "" unless is_model_dtype()
  int bits;
};

/// In the order of StoredDType.
constexpr std::array<TypeInfo, 22> kTypes = {
    {{"BOOL", "", 8},    {"F4", "", 4},      {"F6_E2M3", "", 6},     {"F6_E3M2", "", 6},     {"U8", "", 8},
     {"I8", "", 8},      {"F8_E5M2", "", 8}, {"F8_E4M3", "", 8},     {"F8_E5M2FNUZ", "", 8}, {"F8_E4M3FNUZ", "", 8},
     {"F8_E8M0", "", 8}, {"I16", "", 16},    {"U16", "", 16},        {"F16", "float16", 16}, {"BF16", "bfloat16", 16},
     {"I32", "", 32},    {"U32", "", 32},    {"F32", "float32", 32}, {"C64", "", 64},        {"F64", "float64", 64},
     {"I64", "", 64},    {"U64", "", 64}}};

const TypeInfo& info_of(StoredDType dtype) { return kTypes[enum_index(dtype)]; }

/// Returns the type whose `member` is `name`, or nullopt if there is none.
std::optional<StoredDType> find_type(const char* TypeInfo::*member, std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (!name.empty() && name == kTypes[i].*member) return static_cast<StoredDType>(i);
  }
  return std::nullopt;
}

/// Rounds to odd: truncates `value` to fp32, and sets the last bit if the result is inexact. Rounding the result to 16
/// bits then gives the same number as rounding `value` to 16 bits directly.
float round_to_odd(double value) {
  auto rounded = float(value);
  if (std::isnan(value) || double(rounded) == value) return rounded;
  std::uint32_t bits;
  std::memcpy(&bits, &rounded, 4);
  if (std::fabs(double(rounded)) > std::fabs(value)) --bits;
  bits |= 1;
  std::memcpy(&rounded, &bits, 4);
  return rounded;
}

template <class T>
T load(std::span<const std::byte> stored, std::size_t i) {
  T value;
  std::memcpy(&value, stored.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(std::span<std::byte> out, std::size_t i, T value) {
  std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

int bits_of(StoredDType dtype) { return info_of(dtype).bits; }
std::string name_of(StoredDType dtype) { return info_of(dtype).name; }
std::string torch_name_of(StoredDType dtype) { return info_of(dtype).torch_name; }
bool is_model_dtype(StoredDType dtype) { return info_of(dtype).torch_name[0] != '\0'; }

std::optional<StoredDType> parse_stored_dtype(std::string_view name) { return find_type(&TypeInfo::name, name); }
std::optional<StoredDType> parse_torch_dtype(std::string_view name) { return find_type(&TypeInfo::torch_name, name); }

StoredDType stored_dtype_of(DType dtype) {
  using enum StoredDType;
  constexpr StoredDType kStored[] = {f32, f64, f16, bf16, i64, i32, u32, u16, u8};  // in the order of DType
  return kStored[enum_index(dtype)];
}

std::size_t count_nonfinite(StoredDType dtype, std::span<const std::byte> stored) {
  auto count = [&]<class Bits>(Bits exponent) {  // infinities and NaN have all exponent bits set
    std::size_t found = 0;
    for (std::size_t i = 0; i < stored.size() / sizeof(Bits); ++i)
      found += (load<Bits>(stored, i) & exponent) == exponent ? 1 : 0;
    return found;
  };
  switch (dtype) {
    case StoredDType::f16:
      return count(std::uint16_t{0x7C00});
    case StoredDType::bf16:
      return count(std::uint16_t{0x7F80});
    case StoredDType::f32:
      return count(std::uint32_t{0x7F800000});
    case StoredDType::f64:
      return count(std::uint64_t{0x7FF0000000000000});
    default:
      fail(Exit::failure, "count_nonfinite: ", name_of(dtype), " is not a dtype of models");
  }
}

void to_float(StoredDType dtype, std::span<const std::byte> stored, std::span<float> out) {
  convert_elements(dtype, stored, StoredDType::f32, std::as_writable_bytes(out));
}

namespace {

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<From, double>) {
    if constexpr (std::is_same_v<To, double>)
      return value;
    else if constexpr (std::is_same_v<To, float>)
      return float(value);
    else
      return narrow<To>(round_to_odd(value));
  } else if constexpr (std::is_same_v<To, double>) {
    return double(widen(value));
  } else {
    return narrow<To>(widen(value));
  }
}

/// Calls body(T()), where T is the C++ type for a model dtype's elements.
template <class Body>
void with_model_type(StoredDType dtype, const Body& body) {
  if (dtype == StoredDType::f64) return body(double());
  if (dtype == StoredDType::f32) return body(float());
  if (dtype == StoredDType::bf16) return body(Bf16());
  body(Half());
}

}  // namespace

void convert_elements(StoredDType from, std::span<const std::byte> source, StoredDType to, std::span<std::byte> out) {
  require(is_model_dtype(from) && is_model_dtype(to), "convert_elements: cannot convert ", name_of(from), " to ",
          name_of(to));
  const std::size_t count = source.size() * 8 / bits_of(from);
  require(out.size() * 8 == count * bits_of(to), "convert_elements: ", out.size(), " bytes for ", count, " elements");
  if (from == to) {
    if (!source.empty()) std::memcpy(out.data(), source.data(), source.size());
    return;
  }
  with_model_type(from, [&]<class From>(From) {
    with_model_type(to, [&]<class To>(To) {
      for (std::size_t i = 0; i < count; ++i) put(out, i, converted<To>(load<From>(source, i)));
    });
  });
}

void convert_through(StoredDType from, std::span<const std::byte> source, std::span<const StoredDType> path,
                     std::span<std::byte> out) {
  require(!path.empty(), "convert_through: the path has no dtype");
  constexpr std::size_t kBlock = 1 << 14;  // elements that stay in cache between two conversions
  const std::size_t element = bits_of(from) / 8, out_element = bits_of(path.back()) / 8;
  const std::size_t count = source.size() / element;
  require(out.size() == count * out_element, "convert_through: ", out.size(), " bytes for ", count, " elements");
  std::vector<std::byte> current, next;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    StoredDType dtype = from;
    std::span<const std::byte> block = source.subspan(begin * element, n * element);
    for (StoredDType step : path.first(path.size() - 1)) {
      next.resize(n * bits_of(step) / 8);
      convert_elements(dtype, block, step, next);
      std::swap(current, next);
      dtype = step, block = current;
    }
    convert_elements(dtype, block, path.back(), out.subspan(begin * out_element, n * out_element));
  }
}

bool rounds_to(StoredDType from, std::span<const std::byte> wide, StoredDType dtype,
               std::span<const std::byte> stored) {
  std::vector<std::byte> rounded(stored.size());
  convert_elements(from, wide, dtype, rounded);
  if (std::ranges::equal(rounded, stored)) return true;
  std::vector<float> expected(stored.size() * 8 / bits_of(dtype)), found(expected.size());
  to_float(dtype, rounded, expected);
  to_float(dtype, stored, found);
  return std::ranges::equal(expected, found,
                            [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

}  // namespace mtl
