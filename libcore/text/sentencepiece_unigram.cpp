#include "text/sentencepiece_unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/sentencepiece_normalizer.h"

namespace mtl {

namespace {

using Kind = SentencePiece::Kind;
constexpr float kUnknownPenalty = 10;
constexpr float kMaxCachedCharacters = 16;  // the longest word whose margin() we compute

/// Greater than any log probability, so that a user-defined piece wins over all other spellings, and a longer
/// user-defined piece wins over a shorter one.
float score_of_user_defined(std::size_t bytes) { return 0.1F * float(bytes - 1); }

/// Subtracts the sum at `start` from itself and from all later sums. This preserves differences between sums and
/// restores precision.
void recenter(std::vector<UnigramModel::Scratch::Node>& nodes, std::size_t start, std::size_t frontier) {
  const float offset = nodes[start].sum;
  nodes[start].sum = 0;
  for (std::size_t i = start + 1; i <= frontier; ++i) {
    if (nodes[i].start != UnigramModel::kNowhere) nodes[i].sum -= offset;
  }
}

}  // namespace

UnigramModel::UnigramModel(const SentencePieceModel& model) : scores_(model.pieces.size()), unk_(model.unk) {
  float lowest = std::numeric_limits<float>::max();
  for (const SentencePiece& piece : model.pieces) {
    if (piece.kind == Kind::normal) lowest = std::min(lowest, piece.score);
  }
  unk_score_ = lowest - kUnknownPenalty;
  float magnitude = std::fabs(unk_score_);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.kind != Kind::normal && piece.kind != Kind::user_defined) continue;
    scores_[id] = piece.kind == Kind::normal ? piece.score : score_of_user_defined(piece.text.size());
    magnitude = std::max(magnitude, std::fabs(scores_[id]));
    if (!trie_.add(to_internal(piece.text), static_cast<std::int32_t>(id)))
      fail(Exit::bad_data, model.source, ": the pieces need more than ", ByteTrie::kMaxNodes, " trie nodes");
  }
  largest_word_sum_ = kMaxCachedCharacters * magnitude;
}

template <class Offer>
std::size_t UnigramModel::offer_pieces(std::string_view word, std::size_t start, const Offer& offer) const {
  const std::size_t character = std::min(internal_length(word[start]), word.size() - start);
  bool is_known = false;
  const std::string_view rest = word.substr(start);
  trie_.for_each_prefix(rest.begin(), rest.end(), [&](std::size_t length, std::int32_t piece) {
    offer(start + length, scores_[piece], piece);
    is_known |= length == character;
  });
  if (!is_known) offer(start + character, unk_score_, unk_);
  return character;
}

void UnigramModel::encode(std::string_view word, float& sum, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (word.size() >= kNowhere) fail(Exit::bad_data, "a word has ", word.size(), " bytes, more than the limit of 4 GiB");
  auto& nodes = scratch.nodes;
  nodes.assign(word.size() + 1, {});
  nodes[0].sum = sum;
  std::size_t frontier = 0;  // the last node that a piece has reached
  for (std::size_t start = 0; start < word.size();) {
    if (std::fabs(nodes[start].sum) > kLargestSum) recenter(nodes, start, frontier);
    const float before = nodes[start].sum;
    start += offer_pieces(word, start, [&](std::size_t end, float score, std::int32_t piece) {
      const float candidate = score + before;
      Scratch::Node& node = nodes[end];
      if (node.start == kNowhere || candidate > node.sum) node = {candidate, piece, static_cast<std::uint32_t>(start)};
      frontier = std::max(frontier, end);
    });
  }
  sum = nodes[word.size()].sum;
  std::size_t first = out.size();
  for (std::size_t end = word.size(); end > 0; end = nodes[end].start) out.push_back(nodes[end].piece);
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  constexpr std::size_t kKept = 1 << 16;  // we free a longer word's memory
  if (nodes.capacity() > kKept) nodes = {};
}

float UnigramModel::margin(std::string_view word, Scratch& scratch) const {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  auto& best = scratch.exact;
  best.assign(word.size() + 1, {kNone, kNone});
  best[0].first = 0;
  int characters = 0;
  for (std::size_t start = 0; start < word.size(); ++characters) {
    start += offer_pieces(word, start, [&](std::size_t end, double score, std::int32_t) {
      for (double sum : {best[start].first + score, best[start].second + score}) {
        auto& [first, second] = best[end];
        second = std::max(second, std::min(first, sum));
        first = std::max(first, sum);
      }
    });
  }
  const auto& [first, second] = best[word.size()];
  double per_step = (first - second) / (4.0 * (characters + 1));  // twice what the proof needs
  return float(std::min(per_step, 1e30));
}

}  // namespace mtl
