// Megatron's HuggingFaceTokenizer: a tokenizer.json of byte-level BPE (text/tokenizer_json.h), with the ids that
// transformers gives.
//
// Added tokens inside a text become their ids, special ones too, since that is what Hugging Face's tokenizers do (so
// data can forge the end of a document; GPT2BPETokenizer has ordinary text there). Special tokens that the file puts
// around a text (Llama 3's <|begin_of_text|>) are left out unless asked for.
//
// The end-of-document token is eos_token of tokenizer_config.json beside the file, or of special_tokens_map.json, or
// sep_token, as in Megatron; without any, the first of <|endoftext|>, <|end_of_text|>, </s>, <eos> that is a token.
// Tokens that transformers would add because these files name them, but tokenizer.json lacks them, are refused.
#pragma once

#include "text/bpe_model.h"
#include "text/normalizer.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace mtl {

class HfTokenizer : public Tokenizer {
 public:
  /// `path` is a tokenizer.json. `with_special` puts the special tokens of its post-processor around every text.
  HfTokenizer(const std::string& path, bool with_special);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override { return bytes_.decode(ids, path_); }
  std::int64_t vocab_size() const override { return bytes_.size(); }
  std::int32_t eod() const override;
  std::int32_t pad() const override { return pad_; }
  std::string type() const override { return "HuggingFaceTokenizer"; }
  std::uint64_t hash() const override { return hash_; }
  /// Writes tokenizer.json as it was read, and the files beside it or, without them, a tokenizer_config.json.
  void save(const std::string& folder) const override;

 private:
  class HfEncoder;
  void read_companions();
  void check_template() const;
  void take_special(const std::string& file, const std::string& content);

  std::string path_, text_;                                      // the file and what it holds
  std::vector<std::pair<std::string, std::string>> companions_;  // tokenizer_config.json and its like, by name
  TokenizerJson parts_;
  BpeVocabulary all_;
  BpeModel model_;
  TokenBytes bytes_;
  NfcNormalizer nfc_;
  TokenFinder in_given_, in_normalized_;
  std::string eod_name_;
  std::int32_t eod_ = -1, pad_ = -1;
  std::uint64_t hash_ = 0;
};

}  // namespace mtl
