#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>

#include "base/error.h"
#include "text/pretokenizer.h"

namespace mtl {

namespace {

using Pair = std::uint64_t;  // left id << 32 | right id: ordered as the pair is

Pair make_pair_key(std::uint32_t left, std::uint32_t right) { return Pair{left} << 32 | right; }

/// The words of a text while their symbols are joined, and how often each pair occurs.
class Merger {
 public:
  /// A word is its bytes' ids.
  void add_word(std::vector<std::uint32_t> symbols, std::int64_t count) {
    words_.push_back({std::move(symbols), count});
    auto place = static_cast<std::uint32_t>(words_.size() - 1);
    count_pairs(place, 1);
    note_pairs(place, [](std::uint32_t, std::uint32_t) { return true; });
  }

  void start() {
    for (const auto& [pair, stat] : pairs_) push(pair, stat.count);
    grown_.clear();
  }

  /// The pair to join next; false when there is none.
  bool pop(Pair& best) {
    while (!heap_.empty()) {
      Candidate top = heap_.top();
      heap_.pop();
      auto found = pairs_.find(top.pair);
      std::int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (count == top.count && count > 0) {
        best = top.pair;
        return true;
      }
      if (count > 0 && count < top.count) push(top.pair, count);  // it shrank since; it may still be the best
    }
    return false;
  }

  void join(Pair pair, std::uint32_t joined) {
    auto left = static_cast<std::uint32_t>(pair >> 32), right = static_cast<std::uint32_t>(pair);
    std::vector<std::uint32_t> places = std::move(pairs_[pair].words);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (std::uint32_t place : places) {
      count_pairs(place, -1);
      join_in(words_[place].symbols, left, right, joined);
      count_pairs(place, 1);
      note_pairs(place, [&](std::uint32_t a, std::uint32_t b) { return a == joined || b == joined; });
    }
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (Pair grown : grown_) {
      if (auto found = pairs_.find(grown); found != pairs_.end()) push(grown, found->second.count);
    }
    grown_.clear();
  }

 private:
  struct Word {
    std::vector<std::uint32_t> symbols;
    std::int64_t count;
  };
  struct PairStat {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // those that hold it, and some that did
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    /// Less urgent: a smaller count, then a larger pair.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void push(Pair pair, std::int64_t count) { heap_.push({count, pair}); }

  static void join_in(std::vector<std::uint32_t>& symbols, std::uint32_t left, std::uint32_t right,
                      std::uint32_t joined) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < symbols.size(); ++out) {
      bool here = i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
      symbols[out] = here ? joined : symbols[i];
      i += here ? 2 : 1;
    }
    symbols.resize(out);
  }

  /// Adds (sign 1) or takes away (-1) the pairs of a word.
  void count_pairs(std::uint32_t place, int sign) {
    const auto& [symbols, count] = words_[place];
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      pairs_[make_pair_key(symbols[i], symbols[i + 1])].count += sign * count;
  }

  /// Notes that a word holds the pairs that `is_new` to it, and that these were counted up.
  template <class IsNew>
  void note_pairs(std::uint32_t place, IsNew is_new) {
    const std::vector<std::uint32_t>& symbols = words_[place].symbols;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (!is_new(symbols[i], symbols[i + 1])) continue;
      Pair pair = make_pair_key(symbols[i], symbols[i + 1]);
      pairs_[pair].words.push_back(place);
      grown_.push_back(pair);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairStat> pairs_;
  std::priority_queue<Candidate> heap_;  // may hold a pair several times; counts that are not current are dropped
  std::vector<Pair> grown_;              // pairs counted up by the join under way
};

}  // namespace

void WordCounts::add_text(std::string_view text) {
  for_each_pretoken(text, [&](std::string_view piece) {
    auto found = counts_.find(piece);
    if (found == counts_.end()) found = counts_.emplace(piece, 0).first;
    ++found->second;
  });
}

void WordCounts::add(const WordCounts& other) {
  for (const auto& [word, count] : other.counts_) counts_[word] += count;
}

BpeVocabulary train_bpe(const WordCounts& counts, std::int64_t vocab_size,
                        const std::vector<std::string>& special_tokens) {
  BpeVocabulary out;
  out.tokens = special_tokens;
  for (std::size_t i = 0; i < special_tokens.size(); ++i) out.special.push_back(static_cast<std::int32_t>(i));
  std::vector<std::string> bytes(byte_stand_ins().begin(), byte_stand_ins().end());
  std::sort(bytes.begin(), bytes.end());  // UTF-8 sorts as code points do
  out.tokens.insert(out.tokens.end(), bytes.begin(), bytes.end());
  auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(vocab_size, 0));
  if (wanted < out.tokens.size()) {
    fail(Exit::usage, "--vocab-size ", vocab_size, " is too small: the 256 bytes and ", special_tokens.size(),
         " special tokens already are ", out.tokens.size());
  }
  std::unordered_map<std::string, std::uint32_t> ids;
  for (std::size_t id = 0; id < out.tokens.size(); ++id) ids.emplace(out.tokens[id], static_cast<std::uint32_t>(id));

  Merger merger;
  for (const auto& [word, count] : counts.map()) {
    std::vector<std::uint32_t> symbols;
    for (char byte : word) symbols.push_back(ids.at(byte_stand_ins()[static_cast<unsigned char>(byte)]));
    merger.add_word(std::move(symbols), count);
  }
  merger.start();
  Pair best = 0;
  while (out.tokens.size() < wanted && merger.pop(best)) {
    const std::string& left = out.tokens[best >> 32];
    const std::string& right = out.tokens[best & 0xFFFFFFFF];
    out.merges.push_back({left, right});
    auto [place, is_new] = ids.emplace(left + right, static_cast<std::uint32_t>(out.tokens.size()));
    if (is_new) out.tokens.push_back(place->first);
    merger.join(best, place->second);
  }
  return out;
}

std::size_t find_certain_cut(std::string_view text, std::size_t from) {
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    char before = static_cast<char>(text[at - 1] | 0x20);
    bool is_space = text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r');
    if (is_space && before >= 'a' && before <= 'z') return at;
  }
  return std::string_view::npos;
}

}  // namespace mtl
