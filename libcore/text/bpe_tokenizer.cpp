#include "text/bpe_tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "text/bpe_encoder.h"

namespace mtl {

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, std::string source, bool parse_special_tokens)
    : vocabulary_(std::move(vocabulary)),
      source_(std::move(source)),
      model_(vocabulary_, source_),
      eod_(vocabulary_.find(kEndOfText)) {
  if (!parse_special_tokens) return;
  std::vector<AddedToken> special;
  for (std::int32_t id : vocabulary_.special)
    special.push_back({.content = std::string(vocabulary_.tokens[id]), .id = id});
  special_ = TokenFinder(std::move(special));
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(EncoderMemory memory) const {
  std::unique_ptr<Encoder> plain = make_bpe_encoder(model_, memory);
  if (special_.empty()) return plain;
  return std::make_unique<AddedTokenEncoder>(std::move(plain), special_);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::call_once(bytes_once_, [&] { bytes_ = TokenBytes(vocabulary_); });
  return bytes_.decode(ids, source_);
}

std::int32_t BpeTokenizer::eod() const {
  if (eod_ < 0) fail(Exit::bad_data, source_, " has no ", kEndOfText, ", the end-of-document token");
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
