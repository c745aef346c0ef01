// Text to the ids that SentencePieceProcessor.encode gives: normalized, cut into words where no piece can lie across,
// the words remembered or cut into pieces by a model.
//
// Unknown characters become their bytes' pieces with byte_fallback; else a run of them is one <unk>.
#pragma once

#include <memory>

#include "text/sentencepiece_bpe.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normalizer.h"
#include "text/sentencepiece_unigram.h"
#include "text/tokenizer.h"

namespace mtl {

/// Where normalized text may be cut without changing its pieces: at U+2581 that no piece has elsewhere than in front
/// (or at its end), else nowhere.
enum class WordCut { none, before_space, after_space };

/// All that encoders share. It must outlive them.
class SentencePieceCutter {
 public:
  explicit SentencePieceCutter(SentencePieceModel model);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const;
  const SentencePieceModel& model() const { return model_; }
  const SentencePieceNormalizer& normalizer() const { return normalizer_; }

  /// Bytes of the first word of `text`, which is not empty.
  std::size_t word_length(std::string_view text) const;
  /// Appends the ids of a word's pieces, which may hold unknowns, to those of the text that began at `text_begin`.
  void append_ids(std::string_view word, std::span<const std::int32_t> pieces, std::size_t text_begin,
                  std::vector<std::int32_t>& ids) const;

 private:
  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::unique_ptr<UnigramModel> unigram_;  // one of the two
  std::unique_ptr<SentencePieceBpe> bpe_;
  WordCut cut_ = WordCut::none;
  std::vector<std::uint32_t> lengths_;  // of the pieces, in bytes of normalized text
};

}  // namespace mtl
