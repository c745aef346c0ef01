// Finds a string's number in a StringList. A vocabulary looks up each token in each merge.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "text/pretoken_cache.h"
#include "text/string_list.h"

namespace mtl {

class StringIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Indexes all non-empty strings in `strings`, which must contain fewer than 2^23 strings. Does not copy them, so the
  /// caller must keep `strings` alive.
  explicit StringIndex(const StringList& strings) : strings_(strings), slots_(std::bit_ceil(2 * strings.size() + 1)) {
    require(strings.size() < kNumbers, "StringIndex: too many strings");
    for (std::uint32_t number = 0; number < strings.size(); ++number) {
      if (strings[number].empty()) continue;
      const Key key(strings[number], strings.readable_end());
      std::uint32_t& slot = slots_[slot_of(key)];
      if (slot != 0) {
        repeated_ = number;
      } else {
        slot = key.tag() | (number + 1);
      }
    }
  }

  /// Returns a string's number, or the first number if strings are equal. Returns kNone if the string is empty or not
  /// in the list. If `readable_end` is given, memory up to there may be read.
  std::uint32_t find(std::string_view text, const char* readable_end = nullptr) const {
    return (slots_[slot_of(Key(text, readable_end))] & (kNumbers - 1)) - 1;
  }
  /// Returns the number of the last string that equals an earlier one.
  std::optional<std::uint32_t> repeated() const { return repeated_; }

 private:
  static constexpr std::uint32_t kNumbers = 1 << 23;

  /// A string to look up. Nearly all tokens are short, and short strings are compared as two numbers.
  struct Key {
    Key(std::string_view string, const char* readable_end)
        : text(string), is_short(text.size() <= PretokenKey::kMaxBytes) {
      if (is_short)
        bytes = PretokenKey::of(text.data(), text.size(), readable_end != nullptr && readable_end - text.data() >= 16);
      hash = is_short ? bytes.hash() : hash_bytes(text.data(), text.size());
    }
    std::uint32_t tag() const { return static_cast<std::uint32_t>(hash) & ~(kNumbers - 1); }

    std::string_view text;
    bool is_short;
    PretokenKey bytes;  // if is_short
    std::uint64_t hash;
  };

  /// Returns the key's slot, or the free slot where it belongs.
  std::size_t slot_of(const Key& key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = key.hash >> 32 & mask;
    while (slots_[at] != 0 && !holds(slots_[at], key)) at = (at + 1) & mask;
    return at;
  }
  bool holds(std::uint32_t slot, const Key& key) const {
    if ((slot & ~(kNumbers - 1)) != key.tag()) return false;
    const std::string_view string = strings_[(slot & (kNumbers - 1)) - 1];
    if (string.size() != key.text.size()) return false;
    if (!key.is_short) return string == key.text;
    return PretokenKey::of(string.data(), string.size(), strings_.readable_end() - string.data() >= 16) == key.bytes;
  }

  const StringList& strings_;
  std::vector<std::uint32_t> slots_;  // 0 if free, else tag() | the string's number + 1
  std::optional<std::uint32_t> repeated_;
};

}  // namespace mtl
