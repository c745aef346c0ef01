// Processes 64 bytes at a time. SIMD finds the classes of ASCII characters, one bit per byte. Characters beyond ASCII
// are looked up one by one, and all of their bytes get the same class. Bitwise operations on these masks find where
// pre-tokens start. Only contractions require reading the text again.
#include "text/pretokenizer.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/utf8.h"
#include "text/unicode_classes.h"

#define MTL_SIMD_FILE "text/pretokenizer.cpp"
#include "base/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBlock = 64;

/// The classes of a block's bytes, one bit per byte. Bytes in none of the first three are other characters.
struct BlockBits {
  std::uint64_t letters = 0, numbers = 0, spaces = 0;
  std::uint64_t blanks = 0, apostrophes = 0;  // U+0020, U+0027
  std::uint64_t beyond_ascii = 0;
  std::uint64_t last_wide_spaces = 0;  // where whitespace beyond ASCII starts before another character
};

/// The next block's bytes that belong to a character which starts in this block.
struct Overhang {
  CharClass value = CharClass::other;
  int bytes = 0;
};

template <class D, class Mask>
HWY_INLINE std::uint64_t bits_of(D d, Mask mask) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  using Word =
      std::conditional_t<kLanes == 16, std::uint16_t, std::conditional_t<kLanes == 32, std::uint32_t, std::uint64_t>>;
  Word word = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(&word));
  return word;
}

HWY_INLINE BlockBits classify_ascii(const char* block) {
  const hn::CappedTag<std::uint8_t, kBlock> d;
  BlockBits out;
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto bytes = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(block) + i);
    const auto lies_within = [&](auto value, std::uint8_t first, std::uint8_t last) HWY_ATTR {
      const auto from_first = hn::Sub(value, hn::Set(d, first));
      return hn::Eq(from_first, hn::Min(from_first, hn::Set(d, static_cast<std::uint8_t>(last - first))));
    };
    const auto is_blank = hn::Eq(bytes, hn::Set(d, ' '));
    out.letters |= bits_of(d, lies_within(hn::Or(bytes, hn::Set(d, 0x20)), 'a', 'z')) << i;
    out.numbers |= bits_of(d, lies_within(bytes, '0', '9')) << i;
    out.spaces |= bits_of(d, hn::Or(is_blank, lies_within(bytes, '\t', '\r'))) << i;
    out.blanks |= bits_of(d, is_blank) << i;
    out.apostrophes |= bits_of(d, hn::Eq(bytes, hn::Set(d, '\''))) << i;
    out.beyond_ascii |= bits_of(d, lies_within(bytes, 0x80, 0xFF)) << i;
  }
  return out;
}

/// Also returns true at the end of the text, so that whitespace there is not split.
inline bool is_space_at(const char* at, const char* end) {
  if (at == end || *at == ' ' || (*at >= '\t' && *at <= '\r')) return true;
  return class_of(next_utf8(at, end).code) == CharClass::space;
}

/// Adds the classes of characters beyond ASCII, including the one that `overhang` continues.
inline void classify_beyond_ascii(const char* block, const char* end, Overhang& overhang, BlockBits& bits) {
  auto mark = [&](CharClass value, std::uint64_t bytes) {
    bits.letters |= value == CharClass::letter ? bytes : 0;
    bits.numbers |= value == CharClass::number ? bytes : 0;
    bits.spaces |= value == CharClass::space ? bytes : 0;
  };
  std::uint64_t first = (std::uint64_t{1} << overhang.bytes) - 1;
  mark(overhang.value, first);
  overhang.bytes = 0;
  for (std::uint64_t left = bits.beyond_ascii & ~first; left != 0;) {
    int at = std::countr_zero(left);
    Utf8Char next = next_utf8(block + at, end);
    CharClass value = class_of(next.code);
    std::uint64_t bytes = ((std::uint64_t{1} << next.length) - 1) << at;
    mark(value, bytes);
    if (value == CharClass::space && !is_space_at(block + at + next.length, end))
      bits.last_wide_spaces |= std::uint64_t{1} << at;
    overhang = {value, std::max(at + next.length - static_cast<int>(kBlock), 0)};
    left &= ~bytes;
  }
}

HWY_INLINE BlockBits classify(const char* block, const char* end, Overhang& overhang) {
  std::size_t size = end - block;
  char padded[kBlock];
  if (size < kBlock) [[unlikely]]
    std::memcpy(std::memset(padded, 0, kBlock), block, size);
  BlockBits out = classify_ascii(size < kBlock ? padded : block);
  if (out.beyond_ascii != 0) classify_beyond_ascii(block, end, overhang, out);
  if (size < kBlock) out.spaces |= ~std::uint64_t{0} << size;  // see is_space_at
  return out;
}

/// Returns the length of 's 't 'm 'd 're 've 'll at an apostrophe, or 0.
inline int contraction_length(const char* at, const char* end) {
  char first = end - at > 1 ? at[1] : '\0';
  char second = end - at > 2 ? at[2] : '\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

/// Finds where pre-tokens start, block after block.
class PretokenStarts {
 public:
  /// Returns one bit per byte in the block, set where a pre-token starts. `next_is_space`: the byte after the block is
  /// whitespace.
  HWY_INLINE std::uint64_t find(const BlockBits& bits, bool next_is_space, const char* block, const char* end) {
    const std::uint64_t others = ~(bits.letters | bits.numbers | bits.spaces);
    const std::uint64_t run_starts = (bits.letters & ~follow(bits.letters, before_.letters)) |
                                     (bits.numbers & ~follow(bits.numbers, before_.numbers)) |
                                     (others & ~follow(others, before_others_));
    const std::uint64_t after_blank = follow(bits.blanks, before_.blanks);
    const std::uint64_t words = run_starts & ~after_blank;  // a run includes the blank before it
    const std::uint64_t space_follows = bits.spaces >> 1 | (next_is_space ? std::uint64_t{1} << (kBlock - 1) : 0);
    const std::uint64_t last_spaces = (bits.spaces & ~space_follows & ~bits.beyond_ascii) | bits.last_wide_spaces;
    const std::uint64_t first_spaces = bits.spaces & ~follow(bits.spaces, before_.spaces);
    std::uint64_t starts = ((words | last_spaces | first_spaces) & ~not_starts_) | starts_;
    not_starts_ = starts_ = 0;
    if (std::uint64_t candidates = words & bits.apostrophes; candidates != 0)
      starts = cut_contractions(starts, candidates, block, end);
    before_ = bits;
    before_others_ = others;
    return starts;
  }

 private:
  /// For each byte, returns the preceding byte's bit. `before` contains the preceding block's bits.
  static HWY_INLINE std::uint64_t follow(std::uint64_t bits, std::uint64_t before) {
    return bits << 1 | before >> (kBlock - 1);
  }

  std::uint64_t cut_contractions(std::uint64_t starts, std::uint64_t candidates, const char* block, const char* end) {
    for (; candidates != 0; candidates &= candidates - 1) {
      int at = std::countr_zero(candidates);
      int length = contraction_length(block + at, end);
      if (length == 0) continue;
      constexpr int kLast = static_cast<int>(kBlock) - 1;
      if (at == kLast) {
        not_starts_ = 1;
      } else {
        starts &= ~(std::uint64_t{2} << at);
      }
      if (at + length > kLast) {
        starts_ = std::uint64_t{1} << (at + length - kLast - 1);
      } else {
        starts |= std::uint64_t{1} << (at + length);
      }
    }
    return starts;
  }

  BlockBits before_;
  std::uint64_t before_others_ = 0;
  std::uint64_t starts_ = 0, not_starts_ = 0;  // how a contraction at the end of this block changes the next one
};

/// Writes the address of every set bit. `out` needs room for 7 more addresses.
HWY_INLINE std::size_t write_addresses(std::uint64_t bits, const char* block, const char** out) {
  const std::size_t count = std::popcount(bits);
  for (std::size_t i = 0; i < count; i += 8) {  // eight at a time, because a branch for each is often mispredicted
    for (std::size_t k = 0; k < 8; ++k, bits &= bits - 1) out[i + k] = block + std::countr_zero(bits);
  }
  return count;
}

std::size_t split_blocks(std::string_view text, std::span<const char*> ends) {
  const char* end = text.data() + text.size();
  std::size_t count = 0;
  PretokenStarts starts;
  Overhang overhang;
  if (text.empty() || ends.empty()) return 0;
  BlockBits here = classify(text.data(), end, overhang);
  for (std::size_t at = 0; at < text.size(); at += kBlock) {
    const char* block = text.data() + at;
    BlockBits next;
    next.spaces = ~std::uint64_t{0};
    if (end - block > static_cast<std::ptrdiff_t>(kBlock)) next = classify(block + kBlock, end, overhang);
    std::uint64_t found = starts.find(here, (next.spaces & 1) != 0, block, end);
    if (at == 0) found &= ~std::uint64_t{1};
    if (text.size() - at < kBlock) found &= ~(~std::uint64_t{0} << (text.size() - at));
    if (ends.size() - count >= kBlock + 8) [[likely]] {
      count += write_addresses(found, block, ends.data() + count);
    } else {
      for (; found != 0 && count < ends.size(); found &= found - 1) ends[count++] = block + std::countr_zero(found);
      if (count == ends.size()) return count;
    }
    here = next;
  }
  ends[count++] = end;
  return count;
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl {

std::size_t split_pretokens(std::string_view text, std::span<const char*> ends) {
  static const auto best = MTL_DISPATCH(split_blocks);
  return best(text, ends);
}

}  // namespace mtl
#endif
