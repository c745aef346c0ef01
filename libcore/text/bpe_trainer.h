// Trains a byte-level BPE vocabulary on text. The result is the same as that of Hugging Face's BpeTrainer, byte for
// byte.
//
// Ids are assigned to the special tokens, then to the 256 bytes in the order of their stand-in characters, then to one
// token per merge. Words are the text's pre-tokens, with their counts. Each step merges the adjacent pair with the
// highest total count, from left to right without overlap. If counts are equal, it merges the pair with the smallest
// (left id, right id). Pairs are counted at every position: `aaa` contains `aa` twice. Training ends at the requested
// size, or when no remaining pair occurs at least min_frequency times. A merge that spells an existing token is kept as
// a merge but does not add an id.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

/// Counts pre-tokens, and keeps copies of them. Use one object per thread, and combine the counts with add(). Throws
/// Error(failure) if there are more than 2^31 distinct words.
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

  /// Returns the words in no particular order. The result is valid until the counts change or are destroyed.
  const std::vector<Word>& words() const { return words_; }
  std::size_t size() const { return words_.size(); }
  /// The total length of all distinct words.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void add_word(std::string_view word, std::int64_t count);
  void grow();
  std::string_view copy_text(std::string_view word);

  std::vector<Word> words_;
  std::vector<std::uint32_t> slots_;            // open addressing: 1 + index of a word; 0 if free
  std::vector<std::unique_ptr<char[]>> texts_;  // blocks with the words' text
  char* block_end_ = nullptr;                   // of the last block
  std::size_t block_left_ = 0;                  // free bytes in the last block
  std::uint64_t bytes_ = 0;
};

struct BpeTraining {
  std::int64_t vocab_size = 0;  // including the special tokens and the 256 bytes
  std::vector<std::string> special_tokens = {};
  std::int64_t min_frequency = 0;                   // rarer pairs are not merged
  std::function<void(std::size_t)> on_merges = {};  // called after every 64 merges with their number; may be empty
};

/// Throws Error(usage) if vocab_size has no room for the special tokens and the 256 bytes.
BpeVocabulary train_bpe(const WordCounts& counts, const BpeTraining& training);

/// Returns the first position at or after `from` where a pre-token ends regardless of the surrounding text, that is,
/// before ASCII whitespace that follows another character. Returns npos if there is none. A long text can be cut at
/// such positions and counted in parts.
std::size_t find_safe_cut(std::string_view text, std::size_t from);

}  // namespace mtl
