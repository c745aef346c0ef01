#include "text/unicode_classes.h"

#include "text/unicode_categories.h"

namespace mtl {

namespace {

struct ClassRange {
  std::uint32_t first, last;
  CharClass value;
  constexpr ClassRange(std::uint32_t first_code, std::uint32_t last_code, Category category)
      : first(first_code), last(last_code), value(class_of_category(category)) {}
  constexpr ClassRange(std::uint32_t first_code, std::uint32_t last_code, CharClass char_class)
      : first(first_code), last(last_code), value(char_class) {}

  static constexpr CharClass class_of_category(Category category) {
    const CategorySet set = category_set(category);
    return (set & kLetters) != 0 ? CharClass::letter : (set & kNumbers) != 0 ? CharClass::number : CharClass::other;
  }
};

using enum Category;
constexpr ClassRange kClassRanges[] = {
#include "text/unicode_categories.inc"
    // White_Space. All whitespace characters are in categories Z and C, so their bits in the table are still 0.
    {0x09, 0x0D, CharClass::space},     {0x20, 0x20, CharClass::space},     {0x85, 0x85, CharClass::space},
    {0xA0, 0xA0, CharClass::space},     {0x1680, 0x1680, CharClass::space}, {0x2000, 0x200A, CharClass::space},
    {0x2028, 0x2029, CharClass::space}, {0x202F, 0x202F, CharClass::space}, {0x205F, 0x205F, CharClass::space},
    {0x3000, 0x3000, CharClass::space},
};

/// Computed at compile time, so that lookups need not check whether the table is initialized.
constexpr auto make_class_table() {
  std::array<std::uint8_t, 0x110000 / 4> table{};
  for (const auto& [first, last, value] : kClassRanges) {
    if (value == CharClass::other) continue;
    auto bits = static_cast<std::uint8_t>(value);
    std::uint32_t code = first;
    for (; code <= last && code % 4 != 0; ++code) table[code / 4] |= static_cast<std::uint8_t>(bits << code % 4 * 2);
    for (; code + 3 <= last; code += 4) table[code / 4] = static_cast<std::uint8_t>(bits * 0x55);
    for (; code <= last; ++code) table[code / 4] |= static_cast<std::uint8_t>(bits << code % 4 * 2);
  }
  return table;
}

}  // namespace

constinit const std::array<std::uint8_t, 0x110000 / 4> kUnicodeClasses = make_class_table();

}  // namespace mtl
