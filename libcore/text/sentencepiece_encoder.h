// Encodes text to the same ids as SentencePieceProcessor.encode. Normalizes the text, splits it into words that no
// piece crosses, and finds each word's pieces in a cache or with a model.
//
// With byte_fallback, an unknown character becomes the pieces for its bytes. Otherwise, a run of unknown characters
// becomes a single <unk>.
#pragma once

#include <memory>

#include "text/sentencepiece_bpe.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normalizer.h"
#include "text/sentencepiece_unigram.h"
#include "text/tokenizer.h"

namespace mtl {

/// Where normalized text can be cut without changing the pieces: before U+2581 if it occurs only at the start of
/// pieces, after U+2581 if it occurs only at the end of pieces, otherwise nowhere.
enum class WordCut { none, before_space, after_space };

/// The model and settings that encoders share. Must outlive them.
class SentencePieceSegmenter {
 public:
  explicit SentencePieceSegmenter(SentencePieceModel model);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const;
  const SentencePieceModel& model() const { return model_; }
  const SentencePieceNormalizer& normalizer() const { return normalizer_; }

  /// Returns the length in bytes of the first word in `text`, which must not be empty.
  std::size_t word_length(std::string_view text) const;
  /// Appends the ids of a word's pieces, including unknown ones. `text_begin` is the index in `ids` of the text's first
  /// id.
  void append_ids(std::string_view word, std::span<const std::int32_t> pieces, std::size_t text_begin,
                  std::vector<std::int32_t>& ids) const;

 private:
  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::unique_ptr<UnigramModel> unigram_;  // null if bpe_ is set
  std::unique_ptr<SentencePieceBpe> bpe_;
  WordCut cut_ = WordCut::none;
  std::vector<std::uint32_t> lengths_;  // of the pieces, in bytes of normalized text
};

}  // namespace mtl
