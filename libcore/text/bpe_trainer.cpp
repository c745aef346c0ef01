#include "text/bpe_trainer.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_map>

#include "base/count_of.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

using Pair = std::uint64_t;  // left id << 32 | right id: compares like (left id, right id)

Pair make_pair_key(std::uint32_t left, std::uint32_t right) { return Pair{left} << 32 | right; }

/// A pair's count, and the words that contain the pair.
struct PairStat {
  Pair pair = 0;
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // words that contain the pair, or once did
  std::uint32_t last_merge = 0;      // number of the merge that last raised the count
};

/// The PairStat for every pair that ever occurred. A reference is valid until a new pair is added.
class PairStats {
 public:
  PairStat& operator[](Pair pair) {
    if (2 * stats_.size() >= slots_.size()) grow();
    std::size_t at = home(pair);
    for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
      if (stats_[slots_[at] - 1].pair == pair) return stats_[slots_[at] - 1];
    }
    stats_.emplace_back().pair = pair;
    slots_[at] = static_cast<std::uint32_t>(stats_.size());
    return stats_.back();
  }
  const std::vector<PairStat>& all() const { return stats_; }

 private:
  std::size_t home(Pair pair) const {
    std::uint64_t mixed = (pair ^ pair >> 32) * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 32) & (slots_.size() - 1);
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(1 << 12, 2 * slots_.size()), 0);
    for (std::size_t i = 0; i < stats_.size(); ++i) {
      std::size_t at = home(stats_[i].pair);
      while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = static_cast<std::uint32_t>(i + 1);
    }
  }
  std::vector<PairStat> stats_;
  std::vector<std::uint32_t> slots_;  // open addressing: 1 + index of a PairStat; 0 if free
};

/// Merges symbols in the words of a text step by step, and keeps counts of their pairs.
class Merger {
 public:
  /// Words start as their bytes; `byte_ids` contains each byte's symbol.
  Merger(const WordCounts& counts, const std::array<std::uint32_t, 256>& byte_ids) {
    words_.reserve(counts.size());
    symbols_.reserve(counts.bytes());
    for (const auto& [text, count] : counts.words()) {
      words_.push_back({symbols_.size(), static_cast<std::uint32_t>(text.size()), count});
      for (char byte : text) symbols_.push_back(byte_ids[byte_of(byte)]);
    }
    for (std::uint32_t index = 0; index < words_.size(); ++index) {
      const Word& word = words_[index];
      const std::uint32_t* symbols = symbols_.data() + word.begin;
      for (std::uint32_t i = 0; i + 1 < word.length; ++i) count_up(make_pair_key(symbols[i], symbols[i + 1]), index);
    }
    push_grown();
  }

  /// Sets `best` to the next pair to merge. Returns false if no remaining pair occurs at least `min_count` times.
  bool pop(Pair& best, std::int64_t min_count) {
    while (!heap_.empty()) {
      Candidate top = heap_.top();
      heap_.pop();
      std::int64_t count = pairs_[top.pair].count;
      if (count == top.count && count > 0) {
        best = top.pair;
        return count >= min_count;
      }
      if (count > 0 && count < top.count)
        heap_.push({count, top.pair});  // the count has dropped, but the pair may still be the best
    }
    return false;
  }

  void merge(Pair pair, std::uint32_t merged) {
    ++merge_number_;
    std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
    if (!std::ranges::is_sorted(words)) std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (std::uint32_t word : words) merge_in_word(word, pair, merged);
    pairs_[pair].count = 0;
    pairs_[pair].words = {};
    push_grown();
  }

 private:
  struct Word {
    std::uint64_t begin;  // in symbols_
    std::uint32_t length;
    std::int64_t count;
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    /// True if this candidate merges after the other one: its count is smaller or, if the counts are equal, its pair is
    /// larger.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  /// Merges a pair in one word. Updates the counts of the pairs that the merge removes and creates.
  void merge_in_word(std::uint32_t index, Pair pair, std::uint32_t merged) {
    auto left = static_cast<std::uint32_t>(pair >> 32), right = static_cast<std::uint32_t>(pair);
    Word& word = words_[index];
    std::uint32_t* symbols = symbols_.data() + word.begin;
    std::uint32_t out = 0;
    for (std::uint32_t i = 0; i < word.length; ++out) {
      bool is_match = i + 1 < word.length && symbols[i] == left && symbols[i + 1] == right;
      symbols[out] = is_match ? merged : symbols[i];
      i += is_match ? 2 : 1;
      if (!is_match) continue;
      if (out > 0) {
        pairs_[make_pair_key(symbols[out - 1], left)].count -= word.count;
        count_up(make_pair_key(symbols[out - 1], merged), index);
      }
      if (i < word.length) {
        pairs_[make_pair_key(right, symbols[i])].count -= word.count;
        count_up(make_pair_key(merged, symbols[i]), index);
      }
    }
    word.length = out;
  }

  /// Counts one more occurrence of a pair in a word.
  void count_up(Pair pair, std::uint32_t index) {
    PairStat& stat = pairs_[pair];
    stat.count += words_[index].count;
    if (stat.words.empty() || stat.words.back() != index) stat.words.push_back(index);
    if (stat.last_merge == merge_number_) return;
    stat.last_merge = merge_number_;
    grown_.push_back(pair);
  }

  void push_grown() {
    for (Pair pair : grown_) heap_.push({pairs_[pair].count, pair});
    grown_.clear();
  }

  std::vector<Word> words_;
  std::vector<std::uint32_t> symbols_;
  PairStats pairs_;
  std::priority_queue<Candidate> heap_;  // may contain a pair more than once; pop() drops outdated counts
  std::vector<Pair> grown_;              // pairs whose count the current merge raised
  std::uint32_t merge_number_ = 1;       // the current merge's number; counting the words is number 1
};

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Returns the vocabulary before the first merge.
BpeVocabulary start_vocabulary(const BpeTraining& training) {
  BpeVocabulary out;
  for (const std::string& token : training.special_tokens) out.tokens.push_back(token);
  for (std::size_t i = 0; i < out.tokens.size(); ++i) out.special.push_back(static_cast<std::int32_t>(i));
  std::vector<std::string> bytes(byte_stand_ins().begin(), byte_stand_ins().end());
  std::ranges::sort(bytes);  // UTF-8 sorts in code point order
  for (const std::string& byte : bytes) out.tokens.push_back(byte);
  if (training.vocab_size < std::ssize(out.tokens)) {
    fail(Exit::usage, "--vocab-size ", training.vocab_size, " is too small for the 256 bytes and ",
         count_of(training.special_tokens.size(), "special token"), "; use at least ", out.tokens.size());
  }
  return out;
}

}  // namespace

void WordCounts::add_text(std::string_view text) {
  for_each_pretoken(text, [&](std::string_view pretoken) { add_word(pretoken, 1); });
}

void WordCounts::add(const WordCounts& other) {
  for (const auto& [word, count] : other.words_) add_word(word, count);
}

void WordCounts::add_word(std::string_view word, std::int64_t count) {
  if (2 * words_.size() >= slots_.size()) grow();
  std::size_t mask = slots_.size() - 1, at = hash_bytes(word.data(), word.size()) & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    Word& known = words_[slots_[at] - 1];
    if (known.text != word) continue;
    known.count += count;
    return;
  }
  words_.push_back({copy_text(word), count});
  slots_[at] = static_cast<std::uint32_t>(words_.size());
}

void WordCounts::grow() {
  if (words_.size() >= ~std::uint32_t{0} / 2)
    fail(Exit::failure, "the text has more than ", words_.size(), " distinct words; train on a part of the text");
  slots_.assign(std::max<std::size_t>(1 << 12, 2 * slots_.size()), 0);
  std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t at = hash_bytes(words_[i].text.data(), words_[i].text.size()) & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = static_cast<std::uint32_t>(i + 1);
  }
}

std::string_view WordCounts::copy_text(std::string_view word) {
  constexpr std::size_t kBlockBytes = 1 << 16;
  if (word.size() > block_left_) {
    block_left_ = std::max(kBlockBytes, word.size());
    texts_.push_back(std::make_unique_for_overwrite<char[]>(block_left_));
    block_end_ = texts_.back().get() + block_left_;
  }
  char* at = block_end_ - block_left_;
  std::memcpy(at, word.data(), word.size());
  block_left_ -= word.size();
  bytes_ += word.size();
  return {at, word.size()};
}

BpeVocabulary train_bpe(const WordCounts& counts, const BpeTraining& training) {
  BpeVocabulary out = start_vocabulary(training);
  const std::size_t vocab_size = training.vocab_size;
  std::unordered_map<std::string, std::uint32_t> ids;
  for (std::size_t id = 0; id < out.tokens.size(); ++id)
    ids.emplace(std::string(out.tokens[id]), static_cast<std::uint32_t>(id));
  std::array<std::uint32_t, 256> byte_ids;
  for (std::size_t byte = 0; byte < 256; ++byte) byte_ids[byte] = ids.at(byte_stand_ins()[byte]);

  Merger merger(counts, byte_ids);
  Pair best = 0;
  while (out.tokens.size() < vocab_size && merger.pop(best, training.min_frequency)) {
    const Merge merge{out.tokens[best >> 32], out.tokens[best & 0xFFFFFFFF]};
    out.merges.push_back(merge);
    auto [merged, is_new] = ids.emplace(merge.merged(), static_cast<std::uint32_t>(out.tokens.size()));
    if (is_new) out.tokens.push_back(merged->first);
    merger.merge(best, merged->second);
    if (training.on_merges && out.merges.size() % 64 == 0) training.on_merges(out.merges.size());
  }
  return out;
}

std::size_t find_safe_cut(std::string_view text, std::size_t from) {
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (!is_ascii_space(text[at]) || is_ascii_space(text[at - 1])) continue;
    if (class_of(utf8_before(text, at).code) != CharClass::space) return at;
  }
  return std::string_view::npos;
}

}  // namespace mtl
