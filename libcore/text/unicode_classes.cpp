#include "text/unicode_classes.h"

namespace mtl {

namespace {

struct ClassRange {
  std::uint32_t first, last;
  CharClass value;
};

constexpr ClassRange kRanges[] = {
    {'A', 'Z', CharClass::letter},  {'a', 'z', CharClass::letter}, {'0', '9', CharClass::number},
    {'\t', '\r', CharClass::space}, {' ', ' ', CharClass::space},
#include "text/unicode_ranges.inc"
};

/// Made by the compiler, so that looking up needs no test of whether the table is there.
constexpr auto make_table() {
  std::array<std::uint8_t, 0x110000 / 4> table{};
  for (const auto& [first, last, value] : kRanges) {
    auto bits = static_cast<std::uint8_t>(value);
    std::uint32_t code = first;
    for (; code <= last && code % 4 != 0; ++code) table[code / 4] |= static_cast<std::uint8_t>(bits << code % 4 * 2);
    for (; code + 3 <= last; code += 4) table[code / 4] = static_cast<std::uint8_t>(bits * 0x55);
    for (; code <= last; ++code) table[code / 4] |= static_cast<std::uint8_t>(bits << code % 4 * 2);
  }
  return table;
}

}  // namespace

constinit const std::array<std::uint8_t, 0x110000 / 4> kUnicodeClasses = make_table();

}  // namespace mtl
