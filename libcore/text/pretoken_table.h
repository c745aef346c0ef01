// Short pieces and their tokens, for all encoders of a model: a piece that one thread has encoded, none encodes again.
//
// An entry is written once and never changes, so that readers take no lock. The upper half of its key is stored last,
// and is never zero: a thread that reads it sees the whole entry. Pieces that find no place are counted; after many of
// them, encoders continue with a new, empty table (PretokenTables::renewed), as the text may have changed its kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/big_array.h"
#include "text/pretoken_cache.h"

namespace mtl {

/// A piece and its tokens, or where these are when there are more than kMaxTokens; two fill a cache line.
class Pretoken {
 public:
  static constexpr std::size_t kMaxTokens = 4;

  bool is_free() { return std::atomic_ref(high_).load(std::memory_order_relaxed) == 0; }
  /// False while another thread writes the entry.
  bool holds(const PieceKey& key) {
    const std::uint64_t high = std::atomic_ref(high_).load(std::memory_order_acquire);
    const std::uint64_t low = std::atomic_ref(low_).load(std::memory_order_relaxed);
    return ((high ^ key.high) | (low ^ key.low)) == 0;  // no branch between the halves
  }
  /// Writes `words` into a free entry; false when it is not free.
  bool take(const PieceKey& key, std::span<const std::int32_t, kMaxTokens> words) {
    constexpr std::uint64_t kBeingWritten = 1;  // a length of 0, which no key has
    std::uint64_t high = 0;
    if (!std::atomic_ref(high_).compare_exchange_strong(high, kBeingWritten, std::memory_order_relaxed)) return false;
    std::atomic_ref(low_).store(key.low, std::memory_order_relaxed);
    std::copy(words.begin(), words.end(), words_);
    std::atomic_ref(high_).store(key.high, std::memory_order_release);
    return true;
  }

  // The functions below are for an entry that was found, by holds().
  bool has_all() const { return words_[0] >= 0; }
  std::size_t count() const {
    return 1u + (words_[1] >= 0 ? 1u : 0u) + (words_[2] >= 0 ? 1u : 0u) + (words_[3] >= 0 ? 1u : 0u);
  }
  /// When has_all(): the tokens, -1 behind the last one. Else: -1, their number, where they begin, -1.
  const std::int32_t* words() const { return words_; }

 private:
  std::uint64_t low_, high_;  // of the key; zeros in a free entry
  std::int32_t words_[kMaxTokens];
};

/// Pretokens in sets of two; what a set has no room for is in its neighbour.
class PretokenTable {
 public:
  struct alignas(64) Set {
    Pretoken entries[2];

    /// Selects one of the two without a branch, which the processor could only guess.
    const Pretoken* find(const PieceKey& key) {
      Pretoken& entry = entries[entries[0].holds(key) ? 0 : 1];
      return entry.holds(key) ? &entry : nullptr;
    }
  };

  /// 2^bits sets, at least two.
  explicit PretokenTable(int bits)
      : shift_(64 - bits),
        sets_(std::size_t{1} << bits, "a word table"),
        long_tokens_(std::size_t{1} << bits, "the tokens of a word table") {}

  Set& set_of(const PieceKey& key) { return sets_[key.hash() >> shift_]; }
  /// Looks for an entry that find() has missed in the piece's own set. Only behind a full set can it be in the
  /// neighbour.
  const Pretoken* find_displaced(Set& set, const PieceKey& key) {
    return set.entries[1].is_free() ? nullptr : neighbour(set).find(key);
  }
  std::span<const std::int32_t> tokens_of(const Pretoken& entry) const {
    const std::int32_t* words = entry.words();
    return entry.has_all() ? std::span(words, entry.count()) : long_tokens_.span().subspan(words[2], words[1]);
  }

  void add(Set& set, const PieceKey& key, std::span<const std::int32_t> tokens) {
    std::int32_t words[Pretoken::kMaxTokens] = {-1, -1, -1, -1};
    if (tokens.size() <= Pretoken::kMaxTokens) {
      std::copy(tokens.begin(), tokens.end(), words);
    } else if (!store_long(tokens, words)) {
      return refuse();
    }
    for (Set* place : {&set, &neighbour(set)}) {
      for (Pretoken& entry : place->entries) {
        if (entry.holds(key) || entry.take(key, words)) return;
      }
    }
    refuse();
  }
  /// True when encoding again what it refuses has cost about as much as filling a new table.
  bool is_worn() const { return refused_.load(std::memory_order_relaxed) > sets_.size() / 2; }

 private:
  Set& neighbour(const Set& set) { return sets_[(&set - sets_.data()) ^ 1]; }
  void refuse() { refused_.fetch_add(1, std::memory_order_relaxed); }
  bool store_long(std::span<const std::int32_t> tokens, std::int32_t* words) {
    const std::size_t at = long_used_.fetch_add(tokens.size(), std::memory_order_relaxed);
    if (at + tokens.size() > long_tokens_.size()) return false;
    std::copy(tokens.begin(), tokens.end(), long_tokens_.data() + at);
    words[1] = static_cast<std::int32_t>(tokens.size());
    words[2] = static_cast<std::int32_t>(at);
    return true;
  }

  int shift_;
  BigArray<Set> sets_;
  BigArray<std::int32_t> long_tokens_;  // of the entries with more than kMaxTokens
  std::atomic<std::size_t> long_used_ = 0, refused_ = 0;
};

/// The table that several encoders use at present.
class PretokenTables {
 public:
  explicit PretokenTables(int bits) : bits_(bits) {}

  std::shared_ptr<PretokenTable> current() { return renewed(nullptr); }
  /// Another table than `worn`, which lives on while an encoder holds it.
  std::shared_ptr<PretokenTable> renewed(const std::shared_ptr<PretokenTable>& worn) {
    std::lock_guard lock(mutex_);
    if (table_ == worn) table_ = std::make_shared<PretokenTable>(bits_);
    return table_;
  }

 private:
  int bits_;
  std::mutex mutex_;
  std::shared_ptr<PretokenTable> table_;  // null before the first encoder
};

}  // namespace mtl
