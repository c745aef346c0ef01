#include "formats/whole_number.h"

#include <span>

namespace mtl {

namespace {

std::optional<std::int64_t> without_fraction(double number) {
  if (!(number >= 0 && number < 9e15)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::optional<std::int64_t> whole_number(PickleValue value) {
  if (value.is(PickleKind::integer)) return value.as_int();
  return value.is(PickleKind::real) ? without_fraction(value.as_number()) : std::nullopt;
}

std::optional<std::int64_t> whole_number(const TorchTensor& tensor) {
  if (tensor.count() != 1) return std::nullopt;
  const auto element = [&](auto integer) {
    read_elements(tensor, 0, std::as_writable_bytes(std::span(&integer, 1)));
    return integer;
  };
  if (tensor.dtype == StoredDType::i64) return element(std::int64_t{});
  if (tensor.dtype == StoredDType::i32) return element(std::int32_t{});
  if (!is_model_dtype(tensor.dtype)) return std::nullopt;
  std::vector<std::byte> stored(bits_of(tensor.dtype) / 8);
  read_elements(tensor, 0, stored);
  float number = 0;
  to_float(tensor.dtype, stored, std::span(&number, 1));
  return without_fraction(number);
}

}  // namespace mtl
