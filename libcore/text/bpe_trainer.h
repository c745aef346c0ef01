// Trains a byte-level BPE vocabulary on a text; the result equals that of Hugging Face's BpeTrainer, byte for byte.
//
// Ids: the special tokens, then the 256 bytes in the order of their stand-in characters, then one per merge. Words are
// the text's pre-tokens with their counts. Each step merges the adjacent pair with the highest total count (among
// equals the smallest (left id, right id)), left to right without overlap. Pairs are counted at every position: `aaa`
// has `aa` twice. Training ends at the requested size, or when no pair is left that occurs min_frequency times. A merge
// that spells an existing token is kept as a merge and adds no id.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

/// Counts the pre-tokens of texts, and copies them. Use one per thread; add() adds another's counts. Throws
/// Error(failure) beyond 2^31 distinct words.
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

  /// In no particular order; valid until the counts change or are destroyed.
  const std::vector<Word>& words() const { return words_; }
  std::size_t size() const { return words_.size(); }
  /// Total length of all distinct words.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void add_word(std::string_view word, std::int64_t count);
  void grow();
  std::string_view copy_text(std::string_view word);

  std::vector<Word> words_;
  std::vector<std::uint32_t> slots_;            // open addressing: 1 + index of a word; 0 when free
  std::vector<std::unique_ptr<char[]>> texts_;  // blocks that hold the words' text
  char* block_end_ = nullptr;                   // of the last block
  std::size_t block_left_ = 0;                  // free bytes of the last block
  std::uint64_t bytes_ = 0;
};

struct BpeTraining {
  std::int64_t vocab_size = 0;  // the special tokens and the 256 bytes included
  std::vector<std::string> special_tokens = {};
  std::int64_t min_frequency = 0;                   // rarer pairs are not merged
  std::function<void(std::size_t)> on_merges = {};  // called every 64 merges with the number so far; may be empty
};

/// Throws Error(usage) if vocab_size has no room for the special tokens and the 256 bytes.
BpeVocabulary train_bpe(const WordCounts& counts, const BpeTraining& training);

/// Returns the first position at or after `from` where a pre-token ends whatever the text around it: before ASCII
/// whitespace that follows another character; npos if there is none. A long text can be counted in parts
/// cut there.
std::size_t find_safe_cut(std::string_view text, std::size_t from);

}  // namespace mtl
