// A unigram model: splits a text into the pieces with the largest sum of scores (Kudo 2018).
//
//   best[end] = max over pieces that end there of best[start] + score(piece)
//
// A character that is not a piece may be unknown, with the score (lowest score - 10). Sums are computed as in
// SentencePiece 0.2.3, because they decide ties: in fp32; a later candidate wins only if it is greater; and a sum
// beyond 100,000 is subtracted from itself and from the sums after it. Sums run from the start of the text, so a word's
// split may depend on the text before it: encode() takes that text's sum and updates it.
//
// A word's `margin` bounds that dependence. It is the distance, per rounding step, from the best split to the second
// best in exact arithmetic; while rounding errors are smaller (is_safe), every sum before the word leads to the same
// split, and the word can be cached. (A sum of n terms is off by at most n*u, where u is half a unit in the last place
// of the largest sum; two paths can change places only if they are within 2*n*u.)
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/sentencepiece_model.h"
#include "text/sentencepiece_trie.h"

namespace mtl {

class UnigramModel {
 public:
  explicit UnigramModel(const SentencePieceModel& model);

  /// Memory kept between calls; one per thread.
  struct Scratch {
    struct Node {
      float sum = 0;
      std::int32_t piece = 0;
      std::uint32_t start = kNowhere;  // of the piece that ends here
    };
    struct TwoBest {
      double first, second;
    };
    std::vector<Node> nodes;
    std::vector<TwoBest> exact;
  };
  static constexpr std::uint32_t kNowhere = ~0u;
  static constexpr float kLargestSum = 100000;

  /// Appends the pieces of a normalized word (with kSpace), one unknown piece for each unknown character. `sum` is the
  /// sum of the text before the word, and on return, of the text up to its end. Throws Error(bad_data) for a word of
  /// 2^32 - 1 bytes or more.
  void encode(std::string_view word, float& sum, Scratch& scratch, std::vector<std::int32_t>& out) const;
  /// Returns the margin of a word of up to 16 characters, in fp64: (best sum - second best) / (4 * (characters + 1)),
  /// at most 1e30.
  float margin(std::string_view word, Scratch& scratch) const;
  bool is_safe(float margin, float sum) const { return margin > (std::fabs(sum) + largest_word_sum_) * 0x1p-24f; }
  /// Returns the sum after one more known piece, rounded as in encode().
  float add_score(float sum, std::int32_t piece) const { return scores_[piece] + sum; }

 private:
  PieceTrie trie_;
  std::vector<float> scores_;  // by id; of user-defined pieces, the bonus
  std::int32_t unk_;
  float unk_score_;
  float largest_word_sum_ = 0;
};

}  // namespace mtl
