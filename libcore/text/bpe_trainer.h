// Learning a byte-level BPE vocabulary from a text, as Hugging Face's BpeTrainer does, to the byte.
//
// Ids: the special tokens, then the 256 bytes in the order of their stand-in characters, then one per merge. The
// pre-tokens of the text are words with counts. Repeatedly the pair of neighbours with the highest total count is
// joined, left to right without overlap; among equals the smallest (left id, right id). Pairs are counted at every
// position: `aaa` has `aa` twice. It ends at the wanted size, or when no pair is left. A merge that spells a token
// that exists already is kept as a merge and gives no new id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

/// Counts of pre-tokens. One per thread; add() joins them.
class WordCounts {
 public:
  /// Counts the pre-tokens of one text.
  void add_text(std::string_view text);
  void add(const WordCounts& other);
  std::size_t size() const { return counts_.size(); }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Map = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;
  const Map& map() const { return counts_; }

 private:
  Map counts_;
};

/// `vocab_size` counts the special tokens and the 256 bytes too; throws Error(usage) when it is smaller than these.
BpeVocabulary train_bpe(const WordCounts& counts, std::int64_t vocab_size,
                        const std::vector<std::string>& special_tokens);

/// The first place in `text` from `from` on where pre-tokens are cut whatever comes before and after: between an ASCII
/// letter and ASCII white space. npos when there is none. A long text can be counted in parts cut there.
std::size_t find_certain_cut(std::string_view text, std::size_t from);

}  // namespace mtl
