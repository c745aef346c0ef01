// Maps strings to numbers, byte by byte: finds the strings that begin a text, such as SentencePiece's pieces and added
// tokens.
//
// All nodes' children are in one open-addressed table with 16-byte entries, so that a step reads about one cache line,
// regardless of the number of children. The trie is built in linear time, for any strings.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace mtl {

class ByteTrie {
 public:
  /// The maximum number of nodes.
  static constexpr std::uint32_t kMaxNodes = std::uint32_t{1} << 24;
  static constexpr std::uint32_t kRoot = 0;

  /// An edge in the trie: an entry in the hash table.
  struct alignas(16) Entry {
    std::uint32_t key = ~0u;   // parent << 8 | byte
    std::uint32_t node = 0;    // 0, the root, is not a child, so it marks a free entry
    std::int32_t number = -1;  // of the string spelled up to here, or -1
  };

  ByteTrie();

  /// Adds a string, which must not be empty, or replaces its number, which is not negative. Returns false if the trie
  /// is full.
  bool add(std::string_view text, std::int32_t number);

  /// Returns the child of `node` for `byte`, or null if no string continues with `byte`.
  const Entry* step(std::uint32_t node, unsigned char byte) const {
    std::uint32_t key = node << 8 | byte;
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.node == 0) return nullptr;
      if (entry.key == key) return &entry;
    }
  }

  /// Calls use(length, number) for each string that the bytes from `at` on begin with, the shortest first.
  template <class Iterator, class Use>
  void for_each_prefix(Iterator at, Iterator end, const Use& use) const {
    std::uint32_t node = kRoot;
    for (std::size_t length = 1; at != end; ++at, ++length) {
      const Entry* entry = step(node, byte_of(*at));
      if (entry == nullptr) return;
      node = entry->node;
      if (entry->number >= 0) use(length, entry->number);
    }
  }

  struct Match {
    std::size_t length = 0;  // in bytes; 0 for no match
    std::int32_t number = -1;
  };
  /// Returns the longest string at the start of `text`.
  Match find_longest(std::string_view text) const {
    Match best;
    for_each_prefix(text.begin(), text.end(), [&](std::size_t length, std::int32_t number) {
      best = {length, number};
    });
    return best;
  }
  /// Returns the number of `text`, or -1 if it has not been added.
  std::int32_t find(std::string_view text) const {
    const Match longest = find_longest(text);
    return longest.length == text.size() ? longest.number : -1;
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
