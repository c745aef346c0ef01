// Learning a byte-level BPE vocabulary from a text, as Hugging Face's BpeTrainer does, to the byte.
//
// Ids: the special tokens, then the 256 bytes in the order of their stand-in characters, then one per merge. The
// pre-tokens of the text are words with counts. Repeatedly the pair of neighbours with the highest total count is
// joined, left to right without overlap; among equals the smallest (left id, right id). Pairs are counted at every
// position: `aaa` has `aa` twice. It ends at the wanted size, or when no pair is left. A merge that spells a token
// that exists already is kept as a merge and gives no new id.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

/// Counts of pre-tokens, which it copies. One per thread; add() joins them.
class WordCounts {
 public:
  struct Word {
    std::string_view text;
    std::int64_t count;
  };

  /// Counts the pre-tokens of one text.
  void add_text(std::string_view text);
  void add(const WordCounts& other);
  void clear() { *this = WordCounts(); }

  /// In no particular order.
  const std::vector<Word>& words() const { return words_; }
  std::size_t size() const { return words_.size(); }
  /// Bytes of all different words together.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void add_word(std::string_view word, std::int64_t count);
  void grow();
  std::string_view keep(std::string_view word);

  std::vector<Word> words_;
  std::vector<std::uint32_t> slots_;            // open addressing: 1 + index of a word; 0 when free
  std::vector<std::unique_ptr<char[]>> texts_;  // blocks that hold the words' text
  char* block_end_ = nullptr;                   // of the last block
  std::size_t block_left_ = 0;                  // its free bytes
  std::uint64_t bytes_ = 0;
};

struct BpeTraining {
  std::int64_t vocab_size = 0;  // the special tokens and the 256 bytes included
  std::vector<std::string> special_tokens = {};
  std::int64_t min_frequency = 0;                   // pairs that are rarer are not joined
  std::function<void(std::size_t)> on_merges = {};  // receives the number of merges, now and then; may be empty
};

/// Throws Error(usage) when the vocabulary is to be smaller than what it must hold.
BpeVocabulary train_bpe(const WordCounts& counts, const BpeTraining& training);

/// The first place in `text` from `from` on where pre-tokens are cut whatever comes before and after: between another
/// character and ASCII white space. npos when there is none. A long text can be counted in parts cut there.
std::size_t find_certain_cut(std::string_view text, std::size_t from);

}  // namespace mtl
