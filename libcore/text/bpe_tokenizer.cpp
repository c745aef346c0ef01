#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "text/pretoken_cache.h"
#include "text/pretokenizer.h"

namespace mtl {

namespace {

class BpeEncoder : public Encoder {
 public:
  BpeEncoder(const BpeModel& model, EncoderMemory memory)
      : model_(model), cache_(memory == EncoderMemory::large ? 15 : 6) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    const char* text_end = text.data() + text.size();
    while (!text.empty()) {
      std::size_t count = split_pretokens(text, ends_);
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
  PretokenCache cache_;
  BpeModel::Scratch scratch_;
  std::vector<std::int32_t> tokens_;
  const char* ends_[kBatch];
  PretokenCache::Key keys_[kBatch];
  PretokenCache::Set* sets_[kBatch];  // where a piece would be; null for a long one
};

/// Cuts a text at its special strings, as Hugging Face's tokenizers do, and encodes what lies between by itself.
class SpecialEncoder : public Encoder {
 public:
  SpecialEncoder(std::unique_ptr<Encoder> plain, const BpeVocabulary& vocabulary)
      : plain_(std::move(plain)), vocabulary_(vocabulary) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    constexpr std::size_t kNever = std::string_view::npos;
    const std::vector<std::int32_t>& special = vocabulary_.special;
    std::vector<std::size_t> next(special.size());  // where each comes next; searched anew only when passed
    for (std::size_t i = 0; i < special.size(); ++i) next[i] = text.find(content(special[i]));
    for (std::size_t at = 0; at < text.size();) {
      std::size_t first = kNever;
      std::int32_t found = -1;
      for (std::size_t i = 0; i < special.size(); ++i) {
        if (next[i] != kNever && next[i] < at) next[i] = text.find(content(special[i]), at);
        bool is_longer = found >= 0 && content(special[i]).size() > content(found).size();
        if (next[i] < first || (next[i] != kNever && next[i] == first && is_longer))
          first = next[i], found = special[i];
      }
      plain_->append(text.substr(at, found < 0 ? kNever : first - at), ids);
      if (found < 0) return;
      ids.push_back(found);
      at = first + content(found).size();
    }
  }

 private:
  const std::string& content(std::int32_t id) const { return vocabulary_.tokens[static_cast<std::size_t>(id)]; }
  std::unique_ptr<Encoder> plain_;
  const BpeVocabulary& vocabulary_;
};

}  // namespace

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, std::string source, bool parse_special_tokens)
    : vocabulary_(std::move(vocabulary)),
      source_(std::move(source)),
      parse_special_tokens_(parse_special_tokens),
      model_(vocabulary_, source_),
      eod_(vocabulary_.find(kEndOfText)) {
  bytes_begin_.push_back(0);
  for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    bool is_special =
        std::count(vocabulary_.special.begin(), vocabulary_.special.end(), static_cast<std::int32_t>(id)) > 0;
    bytes_ += is_special ? vocabulary_.tokens[id] : token_bytes(vocabulary_.tokens[id]);
    bytes_begin_.push_back(bytes_.size());
  }
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(EncoderMemory memory) const {
  std::unique_ptr<Encoder> plain = std::make_unique<BpeEncoder>(model_, memory);
  if (!parse_special_tokens_) return plain;
  return std::make_unique<SpecialEncoder>(std::move(plain), vocabulary_);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (std::int32_t id : ids) {
    auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= vocabulary_.tokens.size() || vocabulary_.tokens[index].empty()) {
      fail(Exit::bad_data, "token ", id, " is not in the vocabulary of ", source_, " (", vocab_size(), " tokens)");
    }
    out.append(bytes_, bytes_begin_[index], bytes_begin_[index + 1] - bytes_begin_[index]);
  }
  return out;
}

std::int32_t BpeTokenizer::eod() const {
  if (eod_ < 0) fail(Exit::bad_data, source_, ": no token ", kEndOfText, ", which ends a document");
  return eod_;
}

std::uint64_t BpeTokenizer::hash() const {
  std::string all = vocab_json_text(vocabulary_) + merges_text(vocabulary_) + cat(parse_special_tokens_);
  return hash_bytes(all.data(), all.size());
}

void BpeTokenizer::save(const std::string& folder) const {
  write_file_atomic(folder + "/tokenizer.json", tokenizer_json_text(vocabulary_));
  write_file_atomic(folder + "/tokenizer_config.json", tokenizer_config_text(kEndOfText));
  write_file_atomic(folder + "/vocab.json", vocab_json_text(vocabulary_));
  write_file_atomic(folder + "/merges.txt", merges_text(vocabulary_));
}

}  // namespace mtl
