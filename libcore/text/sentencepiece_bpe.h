// A SentencePiece BPE model. Repeatedly merges the adjacent symbols that spell the piece with the best score, or the
// leftmost such symbols.
//
// A word starts as a sequence of characters and user-defined symbols (the longest that match). User-defined symbols
// never merge. Characters that are not pieces can merge; if they remain alone, they are unknown. Merges may also build
// unused pieces. If an unused piece remains in the result, it is split again, into the last two symbols in the entire
// text that could merge into it. So a model with unused pieces needs the entire text (has_unused()). An unused piece
// that no merge could build is unknown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/merge_loop.h"
#include "text/sentencepiece_model.h"

namespace mtl {

class SentencePieceBpe {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model);

  /// Memory kept between calls. Use one object per thread.
  struct Scratch {
    struct Split {
      std::uint32_t left = 0, right = 0;
      bool is_set = false;
    };
    MergeScratch merges;
    std::vector<std::uint32_t> symbols;  // the word's symbols, before and after merging
    std::vector<std::uint32_t> parts;
    std::vector<Split> splits;              // by piece: an unused piece's last split
    std::vector<std::uint32_t> splits_set;  // pieces whose split is set; cleared before the next text
  };

  /// Appends the pieces of a normalized word (with kSpace). Each unknown character becomes one unknown piece. Throws
  /// Error(bad_data) for a word of 2^32 - 1 bytes or more.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const;
  bool has_unused() const { return has_unused_; }

 private:
  // Symbols are piece ids, followed by numbers for characters that occur in pieces but are not pieces.
  static constexpr std::uint32_t kFrozen = 1u << 31;               // a user-defined symbol: never merges
  static constexpr std::uint32_t kUnknownCharacter = kFrozen - 1;  // a character that no piece contains

  void add_pairs(const std::vector<std::string>& strings, const std::vector<std::uint32_t>& ranks,
                 const ByteTrie& forwards, const ByteTrie& backwards);
  void split_word(std::string_view word, std::vector<std::uint32_t>& symbols) const;
  void merge_short(std::vector<std::uint32_t>& symbols) const;
  void merge_long(Scratch& scratch) const;
  void append(std::uint32_t symbol, Scratch& scratch, std::vector<std::int32_t>& out) const;

  std::uint32_t unk_;
  std::uint32_t piece_count_;
  std::uint32_t symbol_count_;  // of pieces and characters
  bool has_unused_ = false;
  std::vector<bool> is_unused_;       // by piece
  std::vector<std::uint32_t> ascii_;  // character to symbol
  ByteTrie characters_;               // any character in a piece to its symbol
  ByteTrie user_defined_;
  PairTable pairs_;
};

}  // namespace mtl
