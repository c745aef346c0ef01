#include "text/sentencepiece_bpe.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/sentencepiece_normalizer.h"

namespace mtl {

namespace {

constexpr std::size_t kShortWord = 32;
constexpr std::uint32_t kNoSymbol = ~0u;

std::int32_t piece_number(std::uint32_t symbol) { return static_cast<std::int32_t>(symbol); }
std::uint32_t symbol_of(std::int32_t piece) { return static_cast<std::uint32_t>(piece); }

/// Calls `take(start, length)` for every character.
template <class Take>
void for_each_character(std::string_view text, Take take) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = std::min(internal_length(text[at]), text.size() - at);
    take(at, length);
    at += length;
  }
}

/// Returns how many scores are better, by id.
std::vector<std::uint32_t> rank_scores(const SentencePieceModel& model) {
  std::vector<float> scores;
  for (const SentencePiece& piece : model.pieces) scores.push_back(piece.score);
  std::ranges::sort(scores, std::greater<>());
  std::vector<std::uint32_t> ranks;
  for (const SentencePiece& piece : model.pieces) {
    auto found = std::ranges::lower_bound(scores, piece.score, std::greater<>());
    ranks.push_back(static_cast<std::uint32_t>(found - scores.begin()));
  }
  return ranks;
}

/// All symbols' strings, forwards and backwards. One walk over a piece in each direction finds both parts of every
/// split.
struct SymbolTries {
  ByteTrie forwards, backwards;
  const std::string& source;

  void add(const std::string& text, std::uint32_t symbol) {
    auto number = static_cast<std::int32_t>(symbol);
    if (!forwards.add(text, number) || !backwards.add(std::string(text.rbegin(), text.rend()), number))
      fail(Exit::bad_data, source, ": the pieces need more than ", ByteTrie::kMaxNodes, " trie nodes");
  }
};

/// Returns, by length, the symbol that this many bytes at `at` spell, or kNoSymbol.
template <class Iterator>
std::vector<std::uint32_t> symbols_from(const ByteTrie& trie, Iterator at, Iterator end) {
  std::vector<std::uint32_t> out(end - at + 1, kNoSymbol);
  trie.for_each_prefix(at, end, [&](std::size_t length, std::int32_t symbol) { out[length] = symbol_of(symbol); });
  return out;
}

}  // namespace

SentencePieceBpe::SentencePieceBpe(const SentencePieceModel& model)
    : unk_(static_cast<std::uint32_t>(model.unk)),
      piece_count_(static_cast<std::uint32_t>(model.pieces.size())),
      symbol_count_(piece_count_),
      ascii_(0x80, kUnknownCharacter),
      pairs_(0) {
  SymbolTries tries{{}, {}, model.source};
  std::vector<std::string> strings(piece_count_);
  for (std::uint32_t id = 0; id < piece_count_; ++id) {
    const SentencePiece& piece = model.pieces[id];
    is_unused_.push_back(piece.kind == SentencePiece::Kind::unused);
    has_unused_ |= is_unused_.back();
    if (!piece.is_matched()) continue;
    strings[id] = to_internal(piece.text);
    tries.add(strings[id], id);
    if (piece.kind == SentencePiece::Kind::user_defined) user_defined_.add(strings[id], piece_number(id));
  }
  for (const std::string& text : strings) {
    for_each_character(text, [&](std::size_t at, std::size_t length) {
      std::string character = text.substr(at, length);
      std::int32_t symbol = tries.forwards.find(character);
      if (symbol < 0) tries.add(character, symbol_count_), symbol = piece_number(symbol_count_++);
      characters_.add(character, symbol);
      if (byte_of(character[0]) < 0x80) ascii_[byte_of(character[0])] = symbol_of(symbol);
    });
  }
  add_pairs(strings, rank_scores(model), tries.forwards, tries.backwards);
}

void SentencePieceBpe::add_pairs(const std::vector<std::string>& strings, const std::vector<std::uint32_t>& ranks,
                                 const ByteTrie& forwards, const ByteTrie& backwards) {
  struct Pair {
    std::uint32_t left, right, merged;
  };
  std::vector<Pair> found;
  for (std::uint32_t id = 0; id < piece_count_; ++id) {
    const std::string& text = strings[id];
    std::vector<std::uint32_t> lefts = symbols_from(forwards, text.begin(), text.end());
    std::vector<std::uint32_t> rights = symbols_from(backwards, text.rbegin(), text.rend());
    for_each_character(text, [&](std::size_t at, std::size_t) {
      if (at == 0) return;
      std::uint32_t left = lefts[at], right = rights[text.size() - at];
      if (left != kNoSymbol && right != kNoSymbol) found.push_back({.left = left, .right = right, .merged = id});
    });
  }
  pairs_ = PairTable(found.size());
  for (const Pair& pair : found) pairs_.set(pair.left, pair.right, ranks[pair.merged], pair.merged);
}

void SentencePieceBpe::split_word(std::string_view word, std::vector<std::uint32_t>& symbols) const {
  symbols.clear();
  for (std::size_t at = 0; at < word.size();) {
    if (!user_defined_.empty()) {
      ByteTrie::Match match = user_defined_.find_longest(word.substr(at));
      if (match.length > 0) {
        symbols.push_back(symbol_of(match.number) | kFrozen);
        at += match.length;
        continue;
      }
    }
    unsigned char byte = word[at];
    if (byte < 0x80) {
      symbols.push_back(ascii_[byte]);
      ++at;
    } else {
      std::size_t length = std::min(internal_length(word[at]), word.size() - at);
      std::int32_t symbol = characters_.find(word.substr(at, length));
      symbols.push_back(symbol < 0 ? kUnknownCharacter : symbol_of(symbol));
      at += length;
    }
  }
}

void SentencePieceBpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (word.size() >= MergeScratch::kNone)
    fail(Exit::bad_data, "a word has ", word.size(), " bytes, more than the limit of 4 GiB");
  split_word(word, scratch.symbols);
  if (has_unused_) {
    scratch.splits.resize(piece_count_);
    for (std::uint32_t piece : scratch.splits_set) scratch.splits[piece] = {};
    scratch.splits_set.clear();
  }
  if (scratch.symbols.size() <= kShortWord && !has_unused_) {
    merge_short(scratch.symbols);
  } else {
    merge_long(scratch);
  }
  for (std::uint32_t symbol : scratch.symbols) append(symbol, scratch, out);
}

void SentencePieceBpe::merge_short(std::vector<std::uint32_t>& symbols) const {
  std::uint64_t pairs[kShortWord];  // pairs[i]: pairs_.find(symbols[i], symbols[i + 1])
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = pairs_.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) best = rank_of(pairs[i]) < rank_of(pairs[best]) ? i : best;
    if (pairs[best] == PairTable::kNone) break;
    symbols[best] = merged_symbol(pairs[best]);
    --count;
    for (std::size_t i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = pairs_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) pairs[best] = pairs_.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void SentencePieceBpe::merge_long(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  // Called for the left pair first, because the order determines which split of an unused piece is the last.
  auto note_split = [&](std::uint32_t left, std::uint32_t right, std::uint32_t merged) {
    if (!has_unused_ || !is_unused_[merged]) return;
    scratch.splits[merged] = {.left = left, .right = right, .is_set = true};
    scratch.splits_set.push_back(merged);
  };
  merge_symbols(
      symbols.size(), [&](std::uint32_t at) { return symbols[at]; }, pairs_, scratch.merges, note_split);
  symbols.clear();
  scratch.merges.for_each([&](std::uint32_t symbol) { symbols.push_back(symbol); });
  scratch.merges.release_if_large();
}

void SentencePieceBpe::append(std::uint32_t symbol, Scratch& scratch, std::vector<std::int32_t>& out) const {
  symbol &= ~kFrozen;
  if (symbol >= piece_count_) {
    out.push_back(piece_number(unk_));
    return;
  }
  if (!is_unused_[symbol]) {
    out.push_back(piece_number(symbol));
    return;
  }
  auto& parts = scratch.parts;
  parts.assign(1, symbol);
  while (!parts.empty()) {
    std::uint32_t part = parts.back();
    parts.pop_back();
    bool is_split = part < piece_count_ && is_unused_[part] && scratch.splits[part].is_set;
    if (is_split) {
      parts.push_back(scratch.splits[part].right);
      parts.push_back(scratch.splits[part].left);
    } else {
      out.push_back(piece_number(part < piece_count_ && !is_unused_[part] ? part : unk_));
    }
  }
}

}  // namespace mtl
