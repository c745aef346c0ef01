// General categories of characters, for split patterns that need more than letters, numbers and whitespace
// (text/unicode_classes.h). Unicode 16.0, as in the regular expressions in Hugging Face's tokenizers and tiktoken.
#pragma once

#include <array>
#include <cstdint>

namespace mtl {

/// Unicode's names. M, S, Z and C are entire families. P is punctuation without Pc. `none` means unassigned.
enum class Category : std::uint8_t { none, Lu, Ll, Lt, Lm, Lo, M, Nd, Nl, No, Pc, P, S, Z, C };

/// A set of categories, with the bit 1 << Category for each.
using CategorySet = std::uint32_t;
template <class... Categories>
constexpr CategorySet category_set(Categories... values) {
  return ((CategorySet{1} << static_cast<int>(values)) | ...);
}
inline constexpr CategorySet kLetters =
    category_set(Category::Lu, Category::Ll, Category::Lt, Category::Lm, Category::Lo);
inline constexpr CategorySet kNumbers = category_set(Category::Nd, Category::Nl, Category::No);

/// Four bits per code point.
extern const std::array<std::uint8_t, 0x110000 / 2> kUnicodeCategories;

/// `code` must not exceed 0x10FFFF.
inline Category category_of(std::uint32_t code) {
  return static_cast<Category>(kUnicodeCategories[code >> 1] >> (code & 1) * 4 & 15);
}

inline bool is_in(CategorySet set, std::uint32_t code) { return (set >> static_cast<int>(category_of(code)) & 1) != 0; }

}  // namespace mtl
