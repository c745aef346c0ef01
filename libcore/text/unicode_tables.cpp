#include <utility>

#include "text/unicode_categories.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

using enum Category;

/// Code points that all have one category, or two in turn.
struct CategoryRange {
  std::uint32_t first, last;
  Category value;
  Category next = value;
};
constexpr CategoryRange kCategoryRanges[] = {
#include "text/unicode_categories.inc"
};

/// White_Space. All of these characters are in categories Z and C.
constexpr std::pair<std::uint32_t, std::uint32_t> kSpaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

constexpr CharClass class_of_category(Category category) {
  const CategorySet set = category_set(category);
  return (set & kLetters) != 0 ? CharClass::letter : (set & kNumbers) != 0 ? CharClass::number : CharClass::other;
}

/// Sets the bits of code points first, first + 1, ..., last to `value` and `next` in turn, in a table with kBits bits
/// per code point, where they are zeros.
template <int kBits, class Value, std::size_t kBytes>
constexpr void fill(std::array<std::uint8_t, kBytes>& table, std::uint32_t first, std::uint32_t last, Value value,
                    Value next) {
  constexpr std::uint32_t kPerByte = 8 / kBits;
  if (first % 2 == 1) std::swap(value, next);  // now of even code points, and of odd ones
  int whole = 0;                               // a byte with code points of the range alone
  for (std::uint32_t i = 0; i < kPerByte; ++i) whole |= static_cast<int>(i % 2 == 0 ? value : next) << i * kBits;
  const auto set_one = [&](std::uint32_t code) {
    const std::uint32_t shift = code % kPerByte * kBits, mask = ((1u << kBits) - 1) << shift;
    table[code / kPerByte] |= static_cast<std::uint8_t>(whole & static_cast<int>(mask));
  };
  std::uint32_t code = first;
  for (; code <= last && code % kPerByte != 0; ++code) set_one(code);
  for (; code + kPerByte - 1 <= last; code += kPerByte) table[code / kPerByte] = static_cast<std::uint8_t>(whole);
  for (; code <= last; ++code) set_one(code);
}

// The tables are computed at compile time, so that lookups need not check whether they are initialized.

constexpr auto make_category_table() {
  std::array<std::uint8_t, 0x110000 / 2> table{};
  for (const auto& [first, last, value, next] : kCategoryRanges) fill<4>(table, first, last, value, next);
  return table;
}

constexpr auto make_class_table() {
  std::array<std::uint8_t, 0x110000 / 4> table{};
  for (const auto& [first, last, value, next] : kCategoryRanges)
    fill<2>(table, first, last, class_of_category(value), class_of_category(next));
  for (const auto& [first, last] : kSpaces) fill<2>(table, first, last, CharClass::space, CharClass::space);
  return table;
}

}  // namespace

constinit const std::array<std::uint8_t, 0x110000 / 2> kUnicodeCategories = make_category_table();
constinit const std::array<std::uint8_t, 0x110000 / 4> kUnicodeClasses = make_class_table();

}  // namespace mtl
