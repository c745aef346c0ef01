// A unigram model: splits text into the pieces with the largest sum of scores (Kudo 2018).
//
//   best[end] = max over pieces that end there of best[start] + score(piece)
//
// A character that is not a piece may be an unknown piece, with the score (lowest score - 10). Sums decide ties, so we
// compute them as in SentencePiece 0.2.3: in fp32; a later candidate wins only if its sum is greater; and a sum beyond
// 100,000 is subtracted from itself and from all later sums. Sums start at the start of the text, so how a word is
// split may depend on the preceding text. encode() therefore takes the sum for the preceding text and updates it.
//
// A word's margin bounds this dependence. It is the difference between the sums of the best and the second best split
// in exact arithmetic, per rounding step. As long as rounding errors are smaller than the margin (is_safe()), every
// preceding sum leads to the same split, and the word can be cached. (A sum of n terms has an error of at most n*u,
// where u is half a unit in the largest sum's last place. Rounding can reverse the order of two paths only if their
// sums differ by at most 2*n*u.)
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/sentencepiece_model.h"

namespace mtl {

class UnigramModel {
 public:
  explicit UnigramModel(const SentencePieceModel& model);

  /// Memory kept between calls. Use one object per thread.
  struct Scratch {
    struct Node {
      float sum = 0;
      std::int32_t piece = 0;
      std::uint32_t start = kNowhere;  // where the piece that ends here starts
    };
    struct TwoBest {
      double first, second;
    };
    std::vector<Node> nodes;
    std::vector<TwoBest> exact;
  };
  static constexpr std::uint32_t kNowhere = ~0u;
  static constexpr float kLargestSum = 100000;

  /// Appends the pieces of a normalized word (with kSpace). Each unknown character becomes one unknown piece. `sum` is
  /// the sum for the text before the word; on return, it includes the word. Throws Error(bad_data) for a word of 2^32 -
  /// 1 bytes or more.
  void encode(std::string_view word, float& sum, Scratch& scratch, std::vector<std::int32_t>& out) const;
  /// Returns the margin of a word with up to 16 characters, in fp64: (best sum - second best) / (4 * (characters + 1)),
  /// at most 1e30.
  float margin(std::string_view word, Scratch& scratch) const;
  bool is_safe(float margin, float sum) const { return margin > (std::fabs(sum) + largest_word_sum_) * 0x1p-24f; }
  /// Returns the sum after one more known piece, rounded as in encode().
  float add_score(float sum, std::int32_t piece) const { return scores_[piece] + sum; }

 private:
  /// Calls offer(end, score, piece) for each piece that begins at `start` and, unless one of them is the character
  /// there, for the unknown piece. Returns the character's length.
  template <class Offer>
  std::size_t offer_pieces(std::string_view word, std::size_t start, const Offer& offer) const;

  ByteTrie trie_;
  std::vector<float> scores_;  // by id; the bonus for user-defined pieces
  std::int32_t unk_;
  float unk_score_;
  float largest_word_sum_ = 0;
};

}  // namespace mtl
