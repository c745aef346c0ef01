#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "text/pretoken_cache.h"
#include "text/pretokenizer.h"

namespace mtl {

namespace {

class BpeEncoder : public Encoder {
 public:
  BpeEncoder(const BpeModel& model, EncoderMemory memory, std::unique_ptr<Splitter> splitter)
      : model_(model), splitter_(std::move(splitter)), cache_(memory == EncoderMemory::large ? 15 : 6) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    const char* text_end = text.data() + text.size();
    if (splitter_) splitter_->start(text);
    while (!text.empty()) {
      std::size_t count = splitter_ ? splitter_->next(ends_) : split_pretokens(text, ends_);
      make_keys(text.data(), text_end, count);
      append_pieces(text.data(), count, ids);
      text.remove_prefix(static_cast<std::size_t>(ends_[count - 1] - text.data()));
    }
  }

 private:
  static constexpr std::size_t kBatch = 256;

  /// Keys of all pieces of a batch first, so that the table's lines are on their way before they are needed.
  void make_keys(const char* piece, const char* text_end, std::size_t count) {
    for (std::size_t i = 0; i < count; piece = ends_[i++]) {
      auto length = static_cast<std::size_t>(ends_[i] - piece);
      sets_[i] = nullptr;
      if (length > PretokenCache::kMaxBytes) continue;
      keys_[i] = PretokenCache::make_key(piece, length, text_end - piece >= 16);
      sets_[i] = &cache_.set_of(keys_[i]);
      __builtin_prefetch(sets_[i]);
    }
  }

  void append_pieces(const char* piece, std::size_t count, std::vector<std::int32_t>& ids) {
    constexpr std::size_t kTokens = PretokenCache::kMaxTokens;
    std::size_t used = ids.size();
    ids.resize(used + count * kTokens);
    for (std::size_t i = 0; i < count; piece = ends_[i++]) {
      const PretokenCache::Entry* entry = sets_[i] == nullptr ? nullptr : sets_[i]->find(keys_[i]);
      if (entry != nullptr) [[likely]] {
        std::memcpy(ids.data() + used, entry->tokens, sizeof entry->tokens);  // all of them: cheaper than a loop
        used += entry->count();
        continue;
      }
      tokens_.clear();
      model_.encode_piece({piece, static_cast<std::size_t>(ends_[i] - piece)}, scratch_, tokens_);
      if (tokens_.size() > kTokens) ids.resize(ids.size() + tokens_.size() - kTokens);
      std::copy(tokens_.begin(), tokens_.end(), ids.begin() + static_cast<std::ptrdiff_t>(used));
      used += tokens_.size();
      if (sets_[i] != nullptr && tokens_.size() <= kTokens) sets_[i]->put(keys_[i], tokens_);
    }
    ids.resize(used);
  }

  const BpeModel& model_;
  std::unique_ptr<Splitter> splitter_;  // null: GPT-2's pattern
  PretokenCache cache_;
  BpeModel::Scratch scratch_;
  std::vector<std::int32_t> tokens_;
  const char* ends_[kBatch];
  PretokenCache::Key keys_[kBatch];
  PretokenCache::Set* sets_[kBatch];  // where a piece would be; null for a long one
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, EncoderMemory memory,
                                          std::unique_ptr<Splitter> splitter) {
  return std::make_unique<BpeEncoder>(model, memory, std::move(splitter));
}

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, std::string source, bool parse_special_tokens)
    : vocabulary_(std::move(vocabulary)),
      source_(std::move(source)),
      model_(vocabulary_, source_),
      bytes_(vocabulary_),
      eod_(vocabulary_.find(kEndOfText)) {
  if (!parse_special_tokens) return;
  std::vector<AddedToken> special;
  for (std::int32_t id : vocabulary_.special)
    special.push_back({.content = vocabulary_.tokens[static_cast<std::size_t>(id)], .id = id});
  special_ = TokenFinder(std::move(special));
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(EncoderMemory memory) const {
  std::unique_ptr<Encoder> plain = make_bpe_encoder(model_, memory);
  if (special_.empty()) return plain;
  return std::make_unique<CuttingEncoder>(std::move(plain), special_);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const { return bytes_.decode(ids, source_); }

std::int32_t BpeTokenizer::eod() const {
  if (eod_ < 0) fail(Exit::bad_data, source_, ": no token ", kEndOfText, ", which ends a document");
  return eod_;
}

std::uint64_t BpeTokenizer::hash() const { return hash_of(vocabulary_, ""); }

void BpeTokenizer::save(const std::string& folder) const {
  write_file_atomic(folder + "/tokenizer.json", tokenizer_json_text(vocabulary_));
  write_file_atomic(folder + "/tokenizer_config.json", tokenizer_config_text(kEndOfText));
  write_file_atomic(folder + "/vocab.json", vocab_json_text(vocabulary_));
  write_file_atomic(folder + "/merges.txt", merges_text(vocabulary_));
}

}  // namespace mtl
