// Pre-tokens seen before and their tokens: words repeat, so most pieces never reach the merge loop.
//
// A table of fixed size, whose sets are one cache line with two entries; a new piece pushes out the older one. It holds
// pieces of up to 15 bytes that give up to 4 tokens (in English all but about one in a hundred). One per thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mtl {

class PretokenCache {
 public:
  static constexpr std::size_t kMaxBytes = 15;
  static constexpr std::size_t kMaxTokens = 4;

  /// A piece itself: its bytes, zeros, and its length in the last byte. No two pieces share a key.
  struct Key {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::int32_t tokens[kMaxTokens];  // -1 behind the last one

    std::size_t count() const {
      return 1u + (tokens[1] >= 0 ? 1u : 0u) + (tokens[2] >= 0 ? 1u : 0u) + (tokens[3] >= 0 ? 1u : 0u);
    }
  };
  struct alignas(64) Set {
    Entry newer, older;

    const Entry* find(const Key& key) const {
      if (newer.key == key) [[likely]]
        return &newer;
      return older.key == key ? &older : nullptr;
    }
    void put(const Key& key, std::span<const std::int32_t> tokens) {
      older = newer;
      newer.key = key;
      for (std::size_t i = 0; i < kMaxTokens; ++i) newer.tokens[i] = i < tokens.size() ? tokens[i] : -1;
    }
  };

  /// 2^bits sets.
  explicit PretokenCache(int bits) : shift_(64 - bits), sets_(std::size_t{1} << bits) {}

  /// `length` is 1 to kMaxBytes; `readable` says that 16 bytes may be read at `piece`.
  static Key make_key(const char* piece, std::size_t length, bool readable) {
    Key key;
    if (readable) [[likely]] {
      std::memcpy(&key, piece, 16);
      // Shifts by 64 would be undefined, so each half is shifted twice.
      std::size_t in_low = length < 8 ? length : 8, in_high = length - in_low;
      key.low &= ~(~std::uint64_t{0} << (in_low * 4) << (in_low * 4));
      key.high &= ~(~std::uint64_t{0} << (in_high * 8));
    } else {
      std::memcpy(&key, piece, length);
    }
    key.high |= std::uint64_t{length} << 56;
    return key;
  }

  Set& set_of(const Key& key) {
    std::uint64_t hash = (key.low * 0x9E3779B97F4A7C15u) ^ (key.high * 0xC2B2AE3D27D4EB4Fu);
    hash ^= hash >> 32;
    return sets_[static_cast<std::size_t>(hash * 0xD6E8FEB86659FD93u >> shift_)];
  }

 private:
  int shift_;
  std::vector<Set> sets_;
};

}  // namespace mtl
