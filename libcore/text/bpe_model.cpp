#include "text/bpe_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/string_index.h"

namespace mtl {

namespace {

constexpr std::size_t kShortPiece = 128;

bool is_joined(std::string_view token, const Merge& merge) {
  return token.size() == merge.left.size() + merge.right.size() && starts_with(token, merge.left) &&
         token.substr(merge.left.size()) == merge.right;
}

}  // namespace

BpeModel::BpeModel(const BpeVocabulary& vocabulary, const std::string& source) : pairs_(vocabulary.merges.size()) {
  const StringIndex ids(vocabulary.tokens);
  if (ids.repeated())
    fail(Exit::bad_data, source, ": token \"", vocabulary.tokens[*ids.repeated()], "\" is there twice");
  const char* const merges_end = vocabulary.merges.lines().data() + vocabulary.merges.lines().size();
  auto id_of = [&](std::string_view token, const char* readable_end, auto&&... where) {
    const std::uint32_t found = ids.find(token, readable_end);
    if (found == StringIndex::kNone) fail(Exit::bad_data, source, ": no token \"", token, "\", ", where...);
    return found;
  };
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] =
        id_of(byte_stand_ins()[byte], nullptr, "which stands for byte ", byte, "; this is no byte-level vocabulary");
  }
  std::vector<Join> joins;
  joins.reserve(vocabulary.merges.size());
  std::uint32_t next = 0;  // merges make tokens one after another in most files
  for (const Merge& merge : vocabulary.merges) {
    auto rank = static_cast<std::uint32_t>(joins.size());
    auto id_in_merge = [&](std::string_view token, const char* readable_end) {
      return id_of(token, readable_end, "which merge ", rank + 1, " needs");
    };
    const bool is_next = next < vocabulary.tokens.size() && is_joined(vocabulary.tokens[next], merge);
    joins.push_back({id_in_merge(merge.left, merges_end), id_in_merge(merge.right, merges_end), rank,
                     is_next ? next : id_in_merge(merge.joined(), nullptr)});
    next = joins.back().joined + 1;
  }
  set_joins(joins);
}

BpeModel::BpeModel(const std::array<std::uint32_t, 256>& byte_tokens, std::span<const Join> joins)
    : byte_tokens_(byte_tokens), pairs_(joins.size()) {
  set_joins(joins);
}

void BpeModel::set_joins(std::span<const Join> joins) {
  struct Edges {
    char first = 0, last = 0;
    bool known = false;
  };
  std::uint32_t tokens = *std::max_element(byte_tokens_.begin(), byte_tokens_.end()) + 1;
  for (const Join& join : joins) tokens = std::max({tokens, join.left + 1, join.right + 1, join.joined + 1});
  std::vector<Edges> edges(tokens);  // known for the tokens that merges can make of bytes
  for (std::size_t byte = 0; byte < 256; ++byte)
    edges[byte_tokens_[byte]] = {static_cast<char>(byte), static_cast<char>(byte), true};
  // A merge may come before those that make its tokens: again, until nothing is new. One round is what trained files
  // take; in a file made to take thousands, everything may meet.
  constexpr int kMostRounds = 20;
  bool is_new = true, has_all = false;
  for (int round = 0; is_new && !has_all && round < kMostRounds; ++round) {
    is_new = false, has_all = true;
    for (const Join& join : joins) {
      const Edges &left = edges[join.left], &right = edges[join.right];
      if (!left.known || !right.known) {
        has_all = false;
        continue;
      }
      meetings_.set(meeting(left.last, right.first));
      is_new |= !edges[join.joined].known;
      edges[join.joined] = {left.first, right.last, true};
    }
  }
  if (is_new && !has_all) meetings_.set();
  for (const Join& join : joins) pairs_.set(join.left, join.right, join.rank, join.joined);
  byte_pairs_.reserve(1 << 16);
  for (std::uint32_t left : byte_tokens_) {
    for (std::uint32_t right : byte_tokens_) byte_pairs_.push_back(pairs_.find(left, right));
  }
}

void BpeModel::encode_piece(std::string_view piece, MergeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (!whole_.empty()) {
    if (auto found = whole_.find(piece); found != whole_.end()) {
      out.push_back(found->second);
      return;
    }
  }
  if (piece.size() <= kShortPiece) {
    encode_short(piece, out);
  } else {
    encode_long(piece, scratch, out);
  }
}

void BpeModel::encode_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::uint32_t tokens[kShortPiece];
  std::uint64_t pairs[kShortPiece];  // pairs[i] joins tokens[i] and tokens[i + 1]
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) tokens[i] = byte_tokens_[byte_of(piece[i])];
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = byte_pairs_[meeting(piece[i], piece[i + 1])];
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

void BpeModel::encode_long(std::string_view piece, MergeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (piece.size() >= MergeScratch::kNone) fail(Exit::bad_data, "a word of ", piece.size(), " bytes");
  auto byte_token = [&](std::uint32_t at) { return byte_tokens_[byte_of(piece[at])]; };
  join_symbols(piece.size(), byte_token, pairs_, scratch, [](auto...) {});
  scratch.for_each([&](std::uint32_t token) { out.push_back(static_cast<std::int32_t>(token)); });
  scratch.forget_long_word();
}

}  // namespace mtl
