// Pre-tokens seen before and their tokens: words repeat, so most pieces never reach the merge loop.
//
// A direct-mapped table of fixed size, two entries a cache line; a new piece replaces what was in its slot. It holds
// pieces of up to 15 bytes that give up to 3 tokens (in English all but about one in a hundred). One per thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

namespace mtl {

class PretokenCache {
 public:
  static constexpr std::size_t kMaxBytes = 15;
  static constexpr std::size_t kMaxTokens = 3;

  /// A piece itself: its bytes, zeros, and its length in the last byte. No two pieces share a key.
  struct Key {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::int32_t tokens[kMaxTokens];
    std::uint32_t count;
  };

  explicit PretokenCache(int bits) : shift_(64 - bits), entries_(new (std::align_val_t{64}) Entry[std::size_t{1} << bits]()) {}

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

  Entry& slot(const Key& key) {
    std::uint64_t hash = (key.low * 0x9E3779B97F4A7C15u) ^ (key.high * 0xC2B2AE3D27D4EB4Fu);
    hash ^= hash >> 32;
    return entries_[static_cast<std::size_t>(hash * 0xD6E8FEB86659FD93u >> shift_)];
  }

 private:
  struct Free {
    void operator()(Entry* entries) const { ::operator delete[](entries, std::align_val_t{64}); }
  };
  int shift_;
  std::unique_ptr<Entry[], Free> entries_;
};

}  // namespace mtl
