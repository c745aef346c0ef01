// A cache of short pre-tokens and their tokens, shared by all of a model's encoders, so that no thread encodes a
// pre-token that another thread has already encoded.
//
// An entry is written once and never changes, so readers take no lock. The key's upper half is written last and is
// never zero, so a thread that reads it sees the entire entry. We count pre-tokens for which there is no room. After
// many of them, encoders switch to a new, empty table (PretokenTables::replace()), because the kind of text may have
// changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/big_array.h"
#include "text/pretoken_cache.h"

namespace mtl {

/// A pre-token and its tokens or, if there are more than kMaxTokens, where to find them in the table. Two entries fill
/// a cache line.
class Pretoken {
 public:
  static constexpr std::size_t kMaxTokens = 4;

  bool is_free() { return std::atomic_ref(high_).load(std::memory_order_relaxed) == 0; }
  /// Returns true if this is the entry for `key`. Returns false while another thread is writing it.
  bool holds(const PretokenKey& key) {
    const std::uint64_t high = std::atomic_ref(high_).load(std::memory_order_acquire);
    const std::uint64_t low = std::atomic_ref(low_).load(std::memory_order_relaxed);
    return ((high ^ key.high) | (low ^ key.low)) == 0;  // no branch between the halves
  }
  /// Writes `values` into a free entry. Returns false if the entry is not free.
  bool try_write(const PretokenKey& key, std::span<const std::int32_t, kMaxTokens> values) {
    constexpr std::uint64_t kBeingWritten = 1;  // a length of 0, which no key in a table has
    std::uint64_t high = 0;
    if (!std::atomic_ref(high_).compare_exchange_strong(high, kBeingWritten, std::memory_order_relaxed)) return false;
    std::atomic_ref(low_).store(key.low, std::memory_order_relaxed);
    std::copy(values.begin(), values.end(), values_);
    std::atomic_ref(high_).store(key.high, std::memory_order_release);
    return true;
  }

  // The functions below are for an entry for which holds() was true.

  bool holds_tokens() const { return values_[0] >= 0; }
  /// Returns the number of tokens. holds_tokens() must be true.
  std::size_t count() const {
    return 1u + (values_[1] >= 0 ? 1u : 0u) + (values_[2] >= 0 ? 1u : 0u) + (values_[3] >= 0 ? 1u : 0u);
  }
  /// If holds_tokens(): the tokens, padded with -1. Otherwise: -1, the number of tokens, the first token's index in
  /// long_tokens_, -1.
  const std::int32_t* values() const { return values_; }

 private:
  std::uint64_t low_, high_;  // the key; zeros in a free entry
  std::int32_t values_[kMaxTokens];
};

/// Pretokens in sets of two. A full set overflows into its neighbor.
class PretokenTable {
 public:
  struct alignas(64) Set {
    Pretoken entries[2];

    /// Selects one of the two entries without a branch, which would be unpredictable.
    const Pretoken* find(const PretokenKey& key) {
      Pretoken& entry = entries[entries[0].holds(key) ? 0 : 1];
      return entry.holds(key) ? &entry : nullptr;
    }
  };

  /// Allocates 2^bits sets. `bits` must be at least 1, because every set has a neighbor.
  explicit PretokenTable(int bits)
      : shift_(64 - bits),
        sets_(std::size_t{1} << bits, "a word table"),
        long_tokens_(std::size_t{1} << bits, "the tokens of a word table") {}

  Set& set_of(const PretokenKey& key) { return sets_[key.hash() >> shift_]; }
  /// Looks in the neighboring set for a pre-token that find() did not find in its own. Only a full set overflows.
  const Pretoken* find_displaced(Set& set, const PretokenKey& key) {
    return set.entries[1].is_free() ? nullptr : neighbor(set).find(key);
  }
  std::span<const std::int32_t> tokens_of(const Pretoken& entry) const {
    const std::int32_t* values = entry.values();
    return entry.holds_tokens() ? std::span(values, entry.count()) : long_tokens_.span().subspan(values[2], values[1]);
  }

  /// Adds a pre-token to its set or to the neighboring one. If there is no room, only counts the pre-token. The length
  /// and the number of tokens must not be 0.
  void add(Set& set, const PretokenKey& key, std::span<const std::int32_t> tokens) {
    std::int32_t values[Pretoken::kMaxTokens] = {-1, -1, -1, -1};
    if (tokens.size() <= Pretoken::kMaxTokens) {
      std::copy(tokens.begin(), tokens.end(), values);
    } else if (!add_long(tokens, values)) {
      return refuse();
    }
    for (Set* candidate : {&set, &neighbor(set)}) {
      for (Pretoken& entry : candidate->entries) {
        if (entry.holds(key) || entry.try_write(key, values)) return;
      }
    }
    refuse();
  }
  /// True if encoding pre-tokens again for lack of room has cost about as much as filling a new table.
  bool is_exhausted() const { return refused_.load(std::memory_order_relaxed) > sets_.size() / 2; }

 private:
  Set& neighbor(const Set& set) { return sets_[(&set - sets_.data()) ^ 1]; }
  void refuse() { refused_.fetch_add(1, std::memory_order_relaxed); }
  bool add_long(std::span<const std::int32_t> tokens, std::int32_t* values) {
    const std::size_t at = long_used_.fetch_add(tokens.size(), std::memory_order_relaxed);
    if (at + tokens.size() > long_tokens_.size()) return false;
    std::copy(tokens.begin(), tokens.end(), long_tokens_.data() + at);
    values[1] = static_cast<std::int32_t>(tokens.size());
    values[2] = static_cast<std::int32_t>(at);
    return true;
  }

  int shift_;
  BigArray<Set> sets_;
  BigArray<std::int32_t> long_tokens_;  // for entries with more than kMaxTokens
  std::atomic<std::size_t> long_used_ = 0, refused_ = 0;
};

/// The table that multiple encoders use, and its replacements.
class PretokenTables {
 public:
  explicit PretokenTables(int bits) : bits_(bits) {}

  std::shared_ptr<PretokenTable> current() { return replace(nullptr); }
  /// Returns a table other than `exhausted`, which stays alive while an encoder holds it.
  std::shared_ptr<PretokenTable> replace(const std::shared_ptr<PretokenTable>& exhausted) {
    std::lock_guard lock(mutex_);
    if (table_ == exhausted) table_ = std::make_shared<PretokenTable>(bits_);
    return table_;
  }

 private:
  int bits_;
  std::mutex mutex_;
  std::shared_ptr<PretokenTable> table_;  // null before the first encoder
};

}  // namespace mtl
