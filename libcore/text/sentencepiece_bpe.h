// A SentencePiece BPE model: adjacent symbols are joined, best score first, the leftmost among equals, as long as the
// joined string is a piece.
//
// A word starts as its characters and its user-defined symbols (the longest first), which are never joined. Characters
// that are not pieces can still be joined; alone they are unknown. Joining goes through unused pieces too: in the
// result these are taken apart again, into the two symbols from which their string could last have been made anywhere
// in the text, so a model with unused pieces must be given whole texts (has_unused). An unused piece that was not made
// is unknown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge_loop.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_trie.h"

namespace mtl {

class SentencePieceBpe {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model);

  /// Memory kept between calls; one per thread.
  struct Scratch {
    struct Split {
      std::uint32_t left = 0, right = 0;
      bool is_set = false;
    };
    MergeScratch merges;
    std::vector<std::uint32_t> symbols;  // of the word, before and after they are joined
    std::vector<std::uint32_t> parts;
    std::vector<Split> splits;              // by piece: from what an unused one was last made
    std::vector<std::uint32_t> splits_set;  // those to forget before the next text
  };

  /// Appends the pieces of a normalized word (with kSpace, below 4 GiB), unknown characters as the unknown piece, one
  /// each.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const;
  bool has_unused() const { return has_unused_; }

 private:
  // Symbols are the pieces' ids, then characters that are in pieces without being one.
  static constexpr std::uint32_t kFrozen = 1u << 31;       // a user-defined symbol: never joined
  static constexpr std::uint32_t kStranger = kFrozen - 1;  // a character that no piece holds

  void add_pairs(const std::vector<std::string>& strings, const std::vector<std::uint32_t>& ranks,
                 const PieceTrie& forwards, const PieceTrie& backwards);
  void split_word(std::string_view word, std::vector<std::uint32_t>& symbols) const;
  void join_short(std::vector<std::uint32_t>& symbols) const;
  void join_long(Scratch& scratch) const;
  void append(std::uint32_t symbol, Scratch& scratch, std::vector<std::int32_t>& out) const;

  std::uint32_t unk_;
  std::uint32_t pieces_;   // how many
  std::uint32_t symbols_;  // pieces and characters
  bool has_unused_ = false;
  std::vector<bool> is_unused_;       // by piece
  std::vector<std::uint32_t> ascii_;  // character to symbol
  PieceTrie characters_;              // the same for all characters
  PieceTrie user_defined_;
  PairTable pairs_;
};

}  // namespace mtl
