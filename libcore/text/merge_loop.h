// The merge loop for long words, for byte-level BPE and SentencePiece's BPE. Repeatedly merges the adjacent pair with
// the lowest rank, or the leftmost such pair, until no pair has a rank. Takes O(n log n) time for n symbols. Needs 28
// bytes per symbol, and temporarily up to twice as much if merges create many new pairs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/big_array.h"

namespace mtl {

/// Maps pairs of symbols to (rank, merged symbol) in one open-addressed table. Most pairs that we look up never merge.
/// A bit in a filter, which fits into the cache, rejects nine out of ten of them without accessing the table.
class PairTable {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Room for `pairs` pairs.
  explicit PairTable(std::size_t pairs);
  /// Adds a pair, or replaces its rank and merged symbol.
  void set(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t merged);

  /// Prefetches the slot of a pair that find() will soon look up. Does not branch on the filter, because such a branch
  /// is often mispredicted.
  void prefetch(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t hash = hash_of(key_of(left, right));
    const bool may_be = (filter_[hash >> filter_shift_] & bit_of(hash)) != 0;
    __builtin_prefetch(slots_.data() + (may_be ? hash >> slot_shift_ : 0));
  }

  /// Returns rank << 32 | merged symbol, so that the pair with the smallest value merges first. Returns kNone if the
  /// pair never merges.
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
  std::vector<std::uint64_t> filter_;  // one 64-bit word per 8 slots
  std::size_t mask_;
  int slot_shift_, filter_shift_;  // from a hash to its index in slots_ and in filter_
};

inline std::uint32_t rank_of(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> 32); }
inline std::uint32_t merged_symbol(std::uint64_t pair) { return static_cast<std::uint32_t>(pair); }

/// merge_symbols()'s working memory and result; one per thread.
struct MergeScratch {
  static constexpr std::uint32_t kNone = ~0u;
  struct Node {
    std::uint32_t symbol, merged;  // merged: the result of merging with the next node; kNone if they do not merge
    std::uint32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank, at, merged;
  };
  std::vector<Node> nodes;
  std::vector<Candidate> heap;

  /// Calls use(symbol) for each symbol that remains of the last word.
  template <class Use>
  void for_each(Use&& use) const {
    for (std::uint32_t at = nodes.empty() ? kNone : 0; at != kNone; at = nodes[at].next) use(nodes[at].symbol);
  }
  /// Frees the memory if the last word was unusually long.
  void release_if_large() {
    constexpr std::size_t kKept = 1 << 16;
    if (nodes.capacity() > kKept) nodes = {};
    if (heap.capacity() > kKept) heap = {};
  }
};

/// Merges symbol_at(0) .. symbol_at(count - 1) and writes the result to `scratch`. `count` must be less than 2^32 - 1.
/// When two symbols that can merge become neighbors, calls on_pair(left, right, merged). If this happens to two pairs
/// at the same time, the left pair comes first.
template <class SymbolAt, class OnPair>
void merge_symbols(std::size_t count, SymbolAt symbol_at, const PairTable& pairs, MergeScratch& scratch,
                   OnPair on_pair) {
  constexpr std::uint32_t kNone = MergeScratch::kNone;
  auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  auto later = [](const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  auto add_candidate = [&](std::uint32_t at) {
    MergeScratch::Node& node = nodes[at];
    node.merged = kNone;
    if (node.next == kNone) return false;
    const std::uint32_t right = nodes[node.next].symbol;
    const std::uint64_t pair = pairs.find(node.symbol, right);
    if (pair == PairTable::kNone) return false;
    node.merged = merged_symbol(pair);
    heap.push_back({.rank = rank_of(pair), .at = at, .merged = node.merged});
    on_pair(node.symbol, right, node.merged);
    return true;
  };
  nodes.resize(count);
  heap.clear();
  heap.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t next = i + 1 < count ? i + 1 : kNone;
    nodes[i] = {.symbol = symbol_at(i), .merged = kNone, .previous = i - 1, .next = next};  // 0 - 1 is kNone
  }
  for (std::uint32_t i = 0; i < count; ++i) add_candidate(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const MergeScratch::Candidate top = heap.back();
    heap.pop_back();
    MergeScratch::Node& node = nodes[top.at];
    if (node.merged != top.merged) continue;  // one of the two has merged since
    MergeScratch::Node& right = nodes[node.next];
    node.symbol = top.merged;
    right.merged = kNone;
    node.next = right.next;
    if (right.next != kNone) nodes[right.next].previous = top.at;
    if (node.previous != kNone && add_candidate(node.previous)) std::push_heap(heap.begin(), heap.end(), later);
    if (add_candidate(top.at)) std::push_heap(heap.begin(), heap.end(), later);
  }
}

}  // namespace mtl
