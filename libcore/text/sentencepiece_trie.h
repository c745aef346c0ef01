// Maps strings to numbers, byte by byte: finds the piece that each prefix of a text spells.
//
// All nodes' children are in one open-addressed table with 16-byte entries, so that a step reads about one cache line,
// regardless of the number of children. The trie is built in linear time, for any strings.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace mtl {

class PieceTrie {
 public:
  /// The maximum number of nodes.
  static constexpr std::uint32_t kMaxNodes = std::uint32_t{1} << 24;
  static constexpr std::uint32_t kRoot = 0;

  /// An edge in the trie: an entry in the hash table.
  struct alignas(16) Entry {
    std::uint32_t key = ~0u;  // parent << 8 | byte
    std::uint32_t node = 0;   // 0, the root, is not a child, so it marks a free entry
    std::int32_t piece = -1;  // the piece spelled up to here, or -1
  };

  PieceTrie();
  /// Adds a string, which must not be empty. Returns false if the trie is full.
  bool add(std::string_view text, std::int32_t piece);

  /// Returns the child of `node` for `byte`, or null if no piece continues with `byte`.
  const Entry* step(std::uint32_t node, unsigned char byte) const {
    std::uint32_t key = node << 8 | byte;
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.node == 0) return nullptr;
      if (entry.key == key) return &entry;
    }
  }

  /// Returns the piece that equals `text`, or -1.
  std::int32_t find(std::string_view text) const {
    const Entry* entry = nullptr;
    std::uint32_t node = kRoot;
    for (char byte : text) {
      entry = step(node, byte_of(byte));
      if (entry == nullptr) return -1;
      node = entry->node;
    }
    return entry == nullptr ? -1 : entry->piece;
  }

  struct Match {
    std::size_t length = 0;  // in bytes; 0 for no match
    std::int32_t piece = -1;
  };
  /// Returns the longest piece at the start of `text`.
  Match find_longest(std::string_view text) const {
    Match best;
    std::uint32_t node = kRoot;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Entry* entry = step(node, byte_of(text[i]));
      if (entry == nullptr) break;
      node = entry->node;
      if (entry->piece >= 0) best = {i + 1, entry->piece};
    }
    return best;
  }

  bool empty() const { return nodes_ == 1; }

 private:
  std::size_t home(std::uint32_t key) const { return key * 0x9E3779B97F4A7C15u >> shift_; }
  Entry& slot(std::uint32_t key);
  void grow();

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  int shift_ = 0;
  std::uint32_t nodes_ = 1;
};

}  // namespace mtl
