#include "text/unicode_categories.h"

namespace mtl {

namespace {

struct CategoryRange {
  std::uint32_t first, last;
  Category value;
};

using enum Category;
constexpr CategoryRange kCategoryRanges[] = {
#include "text/unicode_categories.inc"
};

/// Computed at compile time, so that lookups need not check whether the table is initialized.
constexpr auto make_category_table() {
  std::array<std::uint8_t, 0x110000 / 2> table{};
  for (const auto& [first, last, value] : kCategoryRanges) {
    auto bits = static_cast<std::uint8_t>(value);
    std::uint32_t code = first;
    if (code % 2 == 1) table[code++ / 2] |= static_cast<std::uint8_t>(bits << 4);
    for (; code + 1 <= last; code += 2) table[code / 2] = static_cast<std::uint8_t>(bits * 0x11);
    if (code <= last) table[code / 2] |= bits;
  }
  return table;
}

}  // namespace

constinit const std::array<std::uint8_t, 0x110000 / 2> kUnicodeCategories = make_category_table();

}  // namespace mtl
