// Strings to numbers, for tables of a size that is known: vocabularies look up each token of each merge.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace mtl {

/// The strings are not copied: they must outlive the index.
class StringIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Room for `strings` strings.
  explicit StringIndex(std::size_t strings) : slots_(std::bit_ceil(2 * strings + 1)) {}

  /// Gives `text` this number unless it has one, and returns the number that it has.
  std::uint32_t put(std::string_view text, std::uint32_t number) {
    const std::uint64_t hash = hash_bytes(text.data(), text.size());
    Slot& slot = slots_[place_of(text, hash)];
    if (slot.number == kNone) slot = {text, number, tag_of(hash)};
    return slot.number;
  }
  /// kNone for a string that was not put.
  std::uint32_t find(std::string_view text) const {
    return slots_[place_of(text, hash_bytes(text.data(), text.size()))].number;
  }

 private:
  struct Slot {
    std::string_view text;
    std::uint32_t number = kNone, tag = 0;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  /// Its slot, or the free one that it would have.
  std::size_t place_of(std::string_view text, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].number != kNone && (slots_[at].tag != tag_of(hash) || slots_[at].text != text))
      at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace mtl
