// The place of a string in a list of them: a vocabulary looks up each token of each merge.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace mtl {

class StringIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Indexes every string that is not empty. The strings are not copied: they must outlive the index.
  explicit StringIndex(std::span<const std::string> strings)
      : strings_(strings), slots_(std::bit_ceil(2 * strings.size() + 1)) {
    for (std::uint32_t number = 0; number < strings.size(); ++number) {
      if (strings[number].empty()) continue;
      const std::uint64_t hash = hash_bytes(strings[number].data(), strings[number].size());
      Slot& slot = slots_[place_of(strings[number], hash)];
      if (slot.number != kNone) {
        repeated_ = number;
      } else {
        slot = {number, tag_of(hash)};
      }
    }
  }

  /// kNone for a string that is not in the list; the first place of one that is there more than once.
  std::uint32_t find(std::string_view text) const {
    return slots_[place_of(text, hash_bytes(text.data(), text.size()))].number;
  }
  /// The last place of a string that an earlier place holds, too.
  std::optional<std::uint32_t> repeated() const { return repeated_; }

 private:
  struct Slot {
    std::uint32_t number = kNone, tag = 0;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  /// Its slot, or the free one that it would have.
  std::size_t place_of(std::string_view text, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].number != kNone && (slots_[at].tag != tag_of(hash) || strings_[slots_[at].number] != text))
      at = (at + 1) & mask;
    return at;
  }
  std::span<const std::string> strings_;
  std::vector<Slot> slots_;
  std::optional<std::uint32_t> repeated_;
};

}  // namespace mtl
