// A unigram model: the cut of a text into pieces whose scores have the largest sum (Kudo 2018).
//
//   best[end] = max over pieces that end there of best[start] + score(piece)
//
// Characters that are not pieces by themselves may be an unknown of score (lowest score - 10). Sums are kept as
// SentencePiece 0.2.3 keeps them, because they decide ties: in float32, a later candidate wins only when it is greater,
// and where a sum has passed 100,000 it and those already known beyond it are made relative to it. They run from the
// start of the text, so a word's cut may depend on what is before it: encode() takes the sum so far, gives the new one.
//
// A word's `margin` says how far that can go. It is the distance, per rounding step, from the best cut to the second
// best in exact arithmetic; while roundings are smaller than it (is_safe), every sum before the word leads to the same
// cut, and the word can be remembered. (A sum of n terms is off by at most n*u, where u is half a unit in the last
// place of the largest sum; two paths can change places only if they are within 2*n*u.)
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

  /// Appends the pieces of a normalized word (with kSpace, below 4 GiB), unknown characters as the unknown piece, one
  /// each. `sum` is that of what comes before it in the same text, then that of both.
  void encode(std::string_view word, float& sum, Scratch& scratch, std::vector<std::int32_t>& out) const;
  /// The difference of the two best sums of a short word without unknown characters, in fp64.
  float margin(std::string_view word, Scratch& scratch) const;
  bool is_safe(float margin, float sum) const { return margin > (std::fabs(sum) + largest_word_sum_) * 0x1p-24f; }
  /// The sum after one more known piece, rounded as encode() does.
  float add_score(float sum, std::int32_t piece) const { return scores_[piece] + sum; }

 private:
  PieceTrie trie_;
  std::vector<float> scores_;  // by id, as added up: user-defined pieces have their bonus
  std::int32_t unk_;
  float unk_score_;
  float largest_word_sum_ = 0;
};

}  // namespace mtl
