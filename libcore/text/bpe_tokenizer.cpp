#include "text/bpe_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "text/bpe_encoder.h"

namespace mtl {

namespace {

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
  std::unique_ptr<Encoder> plain = make_bpe_encoder(model_, memory);
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
