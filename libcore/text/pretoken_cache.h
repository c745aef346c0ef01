// Caches for pre-tokens and their tokens. Words repeat, so few pre-tokens ever reach the merge loop.
//
// Caches have a fixed size. Byte-level BPE has one PretokenTable for all threads (text/pretoken_table.h), and one
// LongPretokenCache per thread for pre-tokens of more than 15 bytes, such as indentation, rulers and names.
// SentencePiece does not have pre-tokens: its encoders cache words (text/sentencepiece_encoder.h) of up to 15 bytes in
// a WordTable, one per thread, whose keys are PretokenKeys, too.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/big_array.h"
#include "base/hash.h"

namespace mtl {

/// A short pre-token or word as a number: its bytes, then zeros, and its length in the last byte. Different strings
/// have different keys.
struct PretokenKey {
  static constexpr std::size_t kMaxBytes = 15;
  std::uint64_t low = 0, high = 0;

  /// `length` is at most kMaxBytes. `readable` means that 16 bytes may be read at `pretoken`.
  static PretokenKey of(const char* pretoken, std::size_t length, bool readable) {
    PretokenKey key;
    if (readable) [[likely]] {
      std::memcpy(&key, pretoken, 16);
      key.low &= kLowMasks[length];
      key.high &= kHighMasks[length];
    } else {
      std::memcpy(&key, pretoken, length);
    }
    key.high |= std::uint64_t{length} << 56;
    return key;
  }
  /// `= default` would branch between the halves.
  bool operator==(const PretokenKey& other) const { return ((low ^ other.low) | (high ^ other.high)) == 0; }
  std::size_t length() const { return high >> 56; }
  std::uint64_t hash() const {
    std::uint64_t mixed = low ^ high * 0xC2B2AE3D27D4EB4Fu;
    mixed ^= mixed >> 32;
    return mixed * 0x9E3779B97F4A7C15u;
  }
  bool is_ascii() const { return ((low | (high & ~std::uint64_t{0} >> 8)) & 0x8080808080808080) == 0; }

 private:
  /// By length: a mask of the bytes that a key's string fills in each half.
  static constexpr auto kLowMasks = [] {
    std::array<std::uint64_t, kMaxBytes + 1> masks{};
    for (std::size_t n = 0; n <= kMaxBytes; ++n) masks[n] = n < 8 ? (std::uint64_t{1} << 8 * n) - 1 : ~std::uint64_t{0};
    return masks;
  }();
  static constexpr auto kHighMasks = [] {
    std::array<std::uint64_t, kMaxBytes + 1> masks{};
    for (std::size_t n = 8; n <= kMaxBytes; ++n) masks[n] = (std::uint64_t{1} << 8 * (n - 8)) - 1;
    return masks;
  }();
};

/// Words in entries whose type the encoder defines, with a member `PretokenKey key`, in sets of two. A new word evicts
/// the older of the two words in its set.
template <class Entry>
class WordTable {
 public:
  struct alignas(64) Set {
    Entry entries[2];  // the newer one first

    /// Selects one of the two entries without a branch, which would be unpredictable.
    const Entry* find(const PretokenKey& key) const {
      const Entry& entry = entries[entries[0].key == key ? 0 : 1];
      return entry.key == key ? &entry : nullptr;
    }
    /// Evicts the older of the two entries, and returns a new entry for `key`. The caller must set its other members.
    Entry& push(const PretokenKey& key) {
      entries[1] = entries[0];
      entries[0].key = key;
      return entries[0];
    }
  };

  /// Allocates 2^bits sets.
  explicit WordTable(int bits) : shift_(64 - bits), sets_(std::size_t{1} << bits, "a word table") {}

  Set& set_of(const PretokenKey& key) { return sets_[key.hash() >> shift_]; }

 private:
  int shift_;
  BigArray<Set> sets_;
};

/// Caches pre-tokens of up to kMaxBytes bytes with any number of tokens. A new pre-token evicts the one in its slot.
class LongPretokenCache {
 public:
  /// Allocates 2^bits slots.
  explicit LongPretokenCache(int bits)
      : mask_((std::size_t{1} << bits) - 1), slots_(mask_ + 1, "a table of long words") {}

  /// If `pretoken` is cached, appends its tokens and returns true.
  bool find(std::string_view pretoken, std::vector<std::int32_t>& out) const {
    if (pretoken.size() > kMaxBytes) return false;
    const Slot& slot = slots_[slot_of(pretoken)];
    if (std::string_view(slot.bytes, slot.length) != pretoken) return false;
    out.insert(out.end(), slot.tokens, slot.tokens + slot.count);
    return true;
  }
  void put(std::string_view pretoken, std::span<const std::int32_t> tokens) {
    if (pretoken.size() > kMaxBytes || tokens.size() > kMaxBytes) return;
    Slot& slot = slots_[slot_of(pretoken)];
    slot.length = static_cast<std::uint8_t>(pretoken.size());
    slot.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(slot.bytes, pretoken.data(), pretoken.size());
    std::memcpy(slot.tokens, tokens.data(), tokens.size_bytes());
  }

 private:
  static constexpr std::size_t kMaxBytes = 126;
  struct Slot {
    std::uint8_t length, count;
    char bytes[kMaxBytes];
    std::int32_t tokens[kMaxBytes];
  };
  std::size_t slot_of(std::string_view pretoken) const { return hash_bytes(pretoken.data(), pretoken.size()) & mask_; }
  std::size_t mask_;
  BigArray<Slot> slots_;
};

}  // namespace mtl
