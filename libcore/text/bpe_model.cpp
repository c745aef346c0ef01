#include "text/bpe_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/string_index.h"

namespace mtl {

namespace {

constexpr std::size_t kShortPretoken = 128;

/// No UTF-8 text has the other 13 bytes. Vocabularies whose alphabet is what occurs in their corpus, such as that of
/// GPT-NeoX, have no tokens for them.
constexpr bool occurs_in_utf8(std::size_t byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

bool is_merged(std::string_view token, const Merge& merge) {
  return token.size() == merge.left.size() + merge.right.size() && starts_with(token, merge.left) &&
         token.substr(merge.left.size()) == merge.right;
}

/// Returns true if a trained vocabulary has the token only because a merge makes it: merges join bytes of one
/// pre-token. Tokens such as <s>, [unused1] and <|extra_0|> are several, and some tokens are spelled without stand-ins.
bool needs_merge(std::string_view token) {
  const std::string bytes = token_bytes(token);
  const bool has_stand_ins = bytes != token || std::ranges::all_of(token, [](char c) { return byte_of(c) < 0x80; });
  const char* end[1];
  return has_stand_ins && split_pretokens(bytes, end) == 1 && *end == bytes.data() + bytes.size();
}

/// Throws if merges are missing, as in a truncated file. Text would then become other, smaller tokens. Trainers number
/// merged tokens after all bytes, so the tokens below `first` are special.
void refuse_missing_merges(const BpeVocabulary& vocabulary, const std::vector<bool>& is_made, std::size_t first,
                           const std::string& source) {
  std::int64_t missing = 0;
  std::string_view example;
  for (std::size_t id = first; id < is_made.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    if (is_made[id] || token.empty() || !needs_merge(token)) continue;
    if (missing++ == 0) example = token;
  }
  if (missing == 0) return;
  fail(Exit::bad_data, source, ": no merge makes ", with_commas(missing), " of its ", with_commas(std::ssize(is_made)),
       " tokens, such as \"", example, "\" (there are ", with_commas(std::ssize(vocabulary.merges)),
       " merges); the list of merges is incomplete or belongs to another vocabulary: copy it again in full");
}

}  // namespace

/// Tracks the first and last byte of each token that merges can build from bytes, and uses them to set may_merge_.
class BpeModel::TokenEdges {
 public:
  TokenEdges(BpeModel& model, std::size_t tokens) : may_merge_(model.may_merge_), edges_(tokens) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (occurs_in_utf8(byte))
        edges_[model.byte_tokens_[byte]] = {
            .first = static_cast<char>(byte), .last = static_cast<char>(byte), .known = true};
    }
  }

  void add(const MergeRule& rule) {
    if (!apply(rule)) deferred_.push_back(rule);
  }
  /// Retries merges that are listed before the merges that build their tokens, until a round applies no merge. Trained
  /// files do not contain such merges. A crafted file could need thousands of rounds, so after a few rounds we assume
  /// that any two bytes may merge.
  void finish() {
    constexpr int kMaxRounds = 20;
    for (int round = 0; !deferred_.empty(); ++round) {
      if (round == kMaxRounds) {
        may_merge_.set();
        return;
      }
      if (std::erase_if(deferred_, [this](const MergeRule& rule) { return apply(rule); }) == 0) return;
    }
  }

 private:
  struct Edges {
    char first = 0, last = 0;
    bool known = false;
  };

  /// Returns false if the edges of `left` or `right` are not known yet.
  bool apply(const MergeRule& rule) {
    const Edges left = edges_[rule.left], right = edges_[rule.right];
    if (!left.known || !right.known) return false;
    may_merge_.set(byte_pair(left.last, right.first));
    edges_[rule.merged] = {.first = left.first, .last = right.last, .known = true};
    return true;
  }

  std::bitset<1 << 16>& may_merge_;
  std::vector<Edges> edges_;  // by token
  std::vector<MergeRule> deferred_;
};

BpeModel::BpeModel(const BpeVocabulary& vocabulary, const std::string& source, bool ignore_merges)
    : pairs_(vocabulary.merges.size()) {
  const StringIndex ids(vocabulary.tokens);
  if (ids.repeated())
    fail(Exit::bad_data, source, ": token \"", vocabulary.tokens[*ids.repeated()], "\" appears twice");
  const char* const merges_end = vocabulary.merges.lines().data() + vocabulary.merges.lines().size();
  auto id_of = [&](std::string_view token, const char* readable_end, auto&&... where) {
    const std::uint32_t found = ids.find(token, readable_end);
    if (found == StringIndex::kNone) fail(Exit::bad_data, source, " has no token \"", token, "\", ", where...);
    return found;
  };
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::string& stand_in = byte_stand_ins()[byte];
    const bool is_needed = occurs_in_utf8(byte) || ids.find(stand_in, nullptr) != StringIndex::kNone;
    byte_tokens_[byte] =
        is_needed ? id_of(stand_in, nullptr, "which stands for byte ", byte, "; this is not a byte-level vocabulary")
                  : byte_tokens_[0];
  }
  std::vector<bool> is_made(vocabulary.tokens.size());
  for (std::int32_t token : vocabulary.special) is_made[static_cast<std::size_t>(token)] = true;
  TokenEdges edges(*this, vocabulary.tokens.size());
  std::uint32_t rank = 0, next = 0;  // in most files, each merge creates the next id
  for (const Merge& merge : vocabulary.merges) {
    auto id_in_merge = [&](std::string_view token, const char* readable_end) {
      return id_of(token, readable_end, "which merge ", rank + 1, " needs");
    };
    const bool is_next = next < vocabulary.tokens.size() && is_merged(vocabulary.tokens[next], merge);
    const MergeRule rule{.left = id_in_merge(merge.left, merges_end),
                         .right = id_in_merge(merge.right, merges_end),
                         .rank = rank,
                         .merged = is_next ? next : id_in_merge(merge.merged(), nullptr)};
    pairs_.set(rule.left, rule.right, rule.rank, rule.merged);
    edges.add(rule);
    is_made[rule.merged] = true;
    next = rule.merged + 1;
    ++rank;
  }
  if (!ignore_merges || vocabulary.merges.empty())
    refuse_missing_merges(vocabulary, is_made, *std::ranges::max_element(byte_tokens_) + 1, source);
  edges.finish();
  set_byte_pairs();
}

BpeModel::BpeModel(const std::array<std::uint32_t, 256>& byte_tokens, std::span<const MergeRule> rules)
    : byte_tokens_(byte_tokens), pairs_(rules.size()) {
  std::uint32_t tokens = *std::ranges::max_element(byte_tokens_) + 1;
  for (const MergeRule& rule : rules) tokens = std::max({tokens, rule.left + 1, rule.right + 1, rule.merged + 1});
  TokenEdges edges(*this, tokens);
  for (const MergeRule& rule : rules) {
    pairs_.set(rule.left, rule.right, rule.rank, rule.merged);
    edges.add(rule);
  }
  edges.finish();
  set_byte_pairs();
}

void BpeModel::set_byte_pairs() {
  byte_pairs_.reserve(1 << 16);
  for (std::uint32_t left : byte_tokens_) {
    for (std::uint32_t right : byte_tokens_) byte_pairs_.push_back(pairs_.find(left, right));
  }
}

void BpeModel::encode_pretoken(std::string_view pretoken, MergeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (!whole_pretokens_.empty()) {
    if (auto found = whole_pretokens_.find(pretoken); found != whole_pretokens_.end()) {
      out.push_back(found->second);
      return;
    }
  }
  if (pretoken.size() <= kShortPretoken) {
    encode_short(pretoken, out);
  } else {
    encode_long(pretoken, scratch, out);
  }
}

void BpeModel::encode_short(std::string_view pretoken, std::vector<std::int32_t>& out) const {
  std::uint32_t tokens[kShortPretoken];
  std::uint64_t pairs[kShortPretoken];  // pairs[i]: pairs_.find(tokens[i], tokens[i + 1])
  std::size_t count = pretoken.size();
  for (std::size_t i = 0; i < count; ++i) tokens[i] = byte_tokens_[byte_of(pretoken[i])];
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = byte_pairs_[byte_pair(pretoken[i], pretoken[i + 1])];
  while (count > 1) {
    std::size_t best = 0;
    std::uint64_t pair = pairs[0];
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i] < pair) pair = pairs[i], best = i;
    }
    if (pair == PairTable::kNone) break;
    tokens[best] = static_cast<std::uint32_t>(pair);
    if (best > 0) pairs_.prefetch(tokens[best - 1], tokens[best]);
    if (best + 2 < count) pairs_.prefetch(tokens[best], tokens[best + 2]);
    --count;
    for (std::size_t i = best + 1; i < count; ++i) tokens[i] = tokens[i + 1];
    for (std::size_t i = best; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = pairs_.find(tokens[best - 1], tokens[best]);
    if (best + 1 < count) pairs[best] = pairs_.find(tokens[best], tokens[best + 1]);
  }
  out.insert(out.end(), tokens, tokens + count);
}

void BpeModel::encode_long(std::string_view pretoken, MergeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (pretoken.size() >= MergeScratch::kNone)
    fail(Exit::bad_data, "a pre-token has ", pretoken.size(), " bytes, more than the limit of 4 GiB");
  auto byte_token = [&](std::uint32_t at) { return byte_tokens_[byte_of(pretoken[at])]; };
  merge_symbols(pretoken.size(), byte_token, pairs_, scratch, [](auto...) {});
  scratch.for_each([&](std::uint32_t token) { out.push_back(static_cast<std::int32_t>(token)); });
  scratch.release_if_large();
}

}  // namespace mtl
