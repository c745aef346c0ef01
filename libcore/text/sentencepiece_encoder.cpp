#include "text/sentencepiece_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "text/pretoken_cache.h"

namespace mtl {

namespace {

using Kind = SentencePiece::Kind;

/// A cached word: up to kMaxPieces known pieces, and the word's margin (text/sentencepiece_unigram.h). Fills a cache
/// line.
struct KnownWord {
  static constexpr std::size_t kMaxPieces = 10;
  PretokenKey key;
  std::uint32_t count = 0;
  float margin = 0;
  std::int32_t pieces[kMaxPieces] = {};
};

/// WordEncoder's interface to a model: the scratch memory, the sum that is carried from word to word in a text, and the
/// decision whether a cached word can be used.
struct UnigramWords {
  const UnigramModel& model;
  UnigramModel::Scratch scratch = {};
  float sum = 0;

  void begin_text() { sum = 0; }
  void encode(std::string_view word, std::vector<std::int32_t>& pieces) { model.encode(word, sum, scratch, pieces); }
  float margin(std::string_view word) { return model.margin(word, scratch); }
  bool is_safe(float margin) const { return model.is_safe(margin, sum); }
  void add_to_sum(std::int32_t piece) { sum = model.add_score(sum, piece); }
};

struct BpeWords {
  const SentencePieceBpe& model;
  SentencePieceBpe::Scratch scratch = {};

  void begin_text() {}
  void encode(std::string_view word, std::vector<std::int32_t>& pieces) { model.encode(word, scratch, pieces); }
  float margin(std::string_view) { return 1; }
  bool is_safe(float) const { return true; }
  void add_to_sum(std::int32_t) {}
};

template <class Words>
class WordEncoder : public Encoder {
 public:
  WordEncoder(const SentencePieceSegmenter& segmenter, Words words, EncoderMemory memory)
      : segmenter_(segmenter), words_(std::move(words)), cache_(memory == EncoderMemory::large ? 14 : 5) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    segmenter_.normalizer().normalize(text, normalized_);
    normalized_.reserve(16);  // PretokenKey::of reads 16 bytes at a word's start
    words_.begin_text();
    const std::size_t text_begin = ids.size();
    for (std::string_view remaining = normalized_.view(); !remaining.empty();) {
      std::string_view word = remaining.substr(0, segmenter_.word_length(remaining));
      remaining.remove_prefix(word.size());
      if (!append_known(word, ids)) append_word(word, text_begin, ids);
    }
  }

 private:
  bool append_known(std::string_view word, std::vector<std::int32_t>& ids) {
    set_ = nullptr;
    if (word.size() > PretokenKey::kMaxBytes) return false;
    key_ = PretokenKey::of(word.data(), word.size(), true);
    set_ = &cache_.set_of(key_);
    const KnownWord* entry = set_->find(key_);
    if (entry == nullptr || !words_.is_safe(entry->margin)) return false;
    for (std::size_t i = 0; i < entry->count; ++i) {
      words_.add_to_sum(entry->pieces[i]);
      ids.push_back(entry->pieces[i]);
    }
    return true;
  }

  void append_word(std::string_view word, std::size_t text_begin, std::vector<std::int32_t>& ids) {
    const std::int32_t unk = segmenter_.model().unk;
    pieces_.clear();
    words_.encode(word, pieces_);
    if (std::ranges::find(pieces_, unk) != pieces_.end()) {
      segmenter_.append_ids(word, pieces_, text_begin, ids);
      return;
    }
    ids.insert(ids.end(), pieces_.begin(), pieces_.end());
    if (set_ == nullptr || pieces_.size() > KnownWord::kMaxPieces) return;
    float margin = words_.margin(word);
    if (!words_.is_safe(margin)) return;
    KnownWord& known = set_->push(key_);
    known.count = static_cast<std::uint32_t>(pieces_.size());
    known.margin = margin;
    std::copy(pieces_.begin(), pieces_.end(), known.pieces);
  }

  const SentencePieceSegmenter& segmenter_;
  Words words_;
  WordTable<KnownWord> cache_;
  PretokenKey key_;
  WordTable<KnownWord>::Set* set_ = nullptr;  // the current word's set; null for a long one
  SentencePieceNormalizer::Result normalized_;
  std::vector<std::int32_t> pieces_;
};

std::vector<std::string_view> user_defined_symbols(const SentencePieceModel& model) {
  std::vector<std::string_view> out;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.kind == Kind::user_defined) out.push_back(piece.text);
  }
  return out;
}

/// True if a piece has two adjacent bytes such that the first is (or is not) kSpace, and the second is (or is not)
/// kSpace.
bool has_adjacent(const std::vector<std::string>& pieces, bool first_is_space, bool second_is_space) {
  for (const std::string& text : pieces) {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if ((text[i - 1] == kSpace) == first_is_space && (text[i] == kSpace) == second_is_space) return true;
    }
  }
  return false;
}

}  // namespace

SentencePieceSegmenter::SentencePieceSegmenter(SentencePieceModel model)
    : model_(std::move(model)),
      normalizer_(model_.normalizer, model_.whitespace_as_suffix, user_defined_symbols(model_), model_.source) {
  std::vector<std::string> texts;
  for (const SentencePiece& piece : model_.pieces) {
    texts.push_back(to_internal(piece.text));
    lengths_.push_back(static_cast<std::uint32_t>(texts.back().size()));
    if (!piece.is_matched()) texts.pop_back();
  }
  if (model_.algorithm == SentencePieceModel::Algorithm::bpe) {
    bpe_ = std::make_unique<SentencePieceBpe>(model_);
    if (bpe_->has_unused()) return;  // it needs whole texts
  } else {
    unigram_ = std::make_unique<UnigramModel>(model_);
  }
  if (!has_adjacent(texts, false, true)) {
    cut_ = WordCut::before_space;
  } else if (!has_adjacent(texts, true, false)) {
    cut_ = WordCut::after_space;
  }
}

std::unique_ptr<Encoder> SentencePieceSegmenter::make_encoder(EncoderMemory memory) const {
  if (bpe_ != nullptr) return std::make_unique<WordEncoder<BpeWords>>(*this, BpeWords{*bpe_}, memory);
  return std::make_unique<WordEncoder<UnigramWords>>(*this, UnigramWords{*unigram_}, memory);
}

std::size_t SentencePieceSegmenter::word_length(std::string_view text) const {
  auto skip_spaces = [&](std::size_t at) {
    while (at < text.size() && text[at] == kSpace) ++at;
    return at;
  };
  auto find_space = [&](std::size_t at) {
    const void* found = std::memchr(text.data() + at, byte_of(kSpace), text.size() - at);
    return found == nullptr ? text.size() : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  };
  switch (cut_) {
    case WordCut::before_space:
      return find_space(skip_spaces(0));
    case WordCut::after_space:
      return skip_spaces(find_space(0));
    default:
      return text.size();
  }
}

void SentencePieceSegmenter::append_ids(std::string_view word, std::span<const std::int32_t> pieces,
                                        std::size_t text_begin, std::vector<std::int32_t>& ids) const {
  for (std::int32_t piece : pieces) {
    std::size_t length = piece == model_.unk ? std::min(internal_length(word[0]), word.size()) : lengths_[piece];
    const bool repeats = piece == model_.unk && ids.size() > text_begin && ids.back() == model_.unk;
    if (piece == model_.unk && model_.byte_fallback) {
      for (char byte : to_text(word.substr(0, length))) ids.push_back(model_.byte_ids[byte_of(byte)]);
    } else if (!repeats) {
      ids.push_back(piece);
    }
    word.remove_prefix(length);
  }
}

}  // namespace mtl
