// Joining the symbols of a long word, as byte-level BPE and SentencePiece's BPE do: the pair of neighbours with the
// lowest rank first, the leftmost among equals, until no pair has a rank. n log n in the number of symbols, with 28
// bytes of memory for each, and for a time up to twice that where many joins make new pairs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/big_array.h"

namespace mtl {

/// Pairs of symbols to (rank, joined symbol), in one open-addressed table. Most pairs that are looked up are never
/// joined: one bit of a filter, which fits the cache, says so of nine in ten without a look into the table.
class PairTable {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Room for `pairs` pairs.
  explicit PairTable(std::size_t pairs);
  void set(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t joined);

  /// Fetches the slot of a pair that find() will look up soon. It does not branch on the filter: that would often be
  /// guessed wrong.
  void prefetch(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t hash = hash_of(key_of(left, right));
    const bool may_be = (filter_[hash >> filter_shift_] & bit_of(hash)) != 0;
    __builtin_prefetch(slots_.data() + (may_be ? hash >> slot_shift_ : 0));
  }

  /// rank << 32 | joined symbol, so that the smallest is the most urgent; kNone when the pair is never joined.
  std::uint64_t find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = key_of(left, right), hash = hash_of(key);
    if ((filter_[hash >> filter_shift_] & bit_of(hash)) == 0) return kNone;
    for (std::size_t at = hash >> slot_shift_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].value;
      if (slots_[at].key == 0) return kNone;
    }
  }

 private:
  struct Slot {
    std::uint64_t key, value;  // zeros in a free slot
  };
  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) { return ~(std::uint64_t{left} << 32 | right); }
  static std::uint64_t hash_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15u; }
  static std::uint64_t bit_of(std::uint64_t hash) { return std::uint64_t{1} << (hash & 63); }
  BigArray<Slot> slots_;
  std::vector<std::uint64_t> filter_;  // 64 bits for 16 slots
  std::size_t mask_;
  int slot_shift_, filter_shift_;  // the upper bits of a hash are the place in slots_, fewer of them that in filter_
};

inline std::uint32_t rank_of(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> 32); }
inline std::uint32_t joined_by(std::uint64_t pair) { return static_cast<std::uint32_t>(pair); }

/// Memory of the loop; one per thread.
struct MergeScratch {
  static constexpr std::uint32_t kNone = ~0u;
  struct Node {
    std::uint32_t symbol, joined;  // joined: what joining with the next node would give
    std::uint32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank, at, joined;
  };
  std::vector<Node> nodes;
  std::vector<Candidate> heap;

  /// Calls use(symbol) for what the last word was joined into.
  template <class Use>
  void for_each(Use&& use) const {
    for (std::uint32_t at = nodes.empty() ? kNone : 0; at != kNone; at = nodes[at].next) use(nodes[at].symbol);
  }
  /// After a word longer than most are, its memory is not kept.
  void forget_long_word() {
    constexpr std::size_t kKept = 1 << 16;
    if (nodes.capacity() > kKept) nodes = {};
    if (heap.capacity() > kKept) heap = {};
  }
};

/// Joins symbol_at(0) .. symbol_at(count - 1), fewer than 2^32 - 1, into `scratch`. on_pair(left, right, joined) is
/// called for every pair that may be joined, when it becomes one: of two new ones, for the left one first.
template <class SymbolAt, class OnPair>
void join_symbols(std::size_t count, SymbolAt symbol_at, const PairTable& pairs, MergeScratch& scratch,
                  OnPair on_pair) {
  constexpr std::uint32_t kNone = MergeScratch::kNone;
  auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  auto later = [](const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  auto add_candidate = [&](std::uint32_t at) {
    MergeScratch::Node& node = nodes[at];
    node.joined = kNone;
    if (node.next == kNone) return false;
    const std::uint32_t right = nodes[node.next].symbol;
    const std::uint64_t pair = pairs.find(node.symbol, right);
    if (pair == PairTable::kNone) return false;
    node.joined = joined_by(pair);
    heap.push_back({rank_of(pair), at, node.joined});
    on_pair(node.symbol, right, node.joined);
    return true;
  };
  nodes.resize(count);
  heap.clear();
  heap.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) nodes[i] = {symbol_at(i), kNone, i - 1, i + 1 < count ? i + 1 : kNone};
  for (std::uint32_t i = 0; i < count; ++i) add_candidate(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const MergeScratch::Candidate top = heap.back();
    heap.pop_back();
    MergeScratch::Node& node = nodes[top.at];
    if (node.joined != top.joined) continue;  // one of the two was joined meanwhile
    MergeScratch::Node& gone = nodes[node.next];
    node.symbol = top.joined;
    gone.joined = kNone;
    node.next = gone.next;
    if (gone.next != kNone) nodes[gone.next].previous = top.at;
    if (node.previous != kNone && add_candidate(node.previous)) std::push_heap(heap.begin(), heap.end(), later);
    if (add_candidate(top.at)) std::push_heap(heap.begin(), heap.end(), later);
  }
}

}  // namespace mtl
