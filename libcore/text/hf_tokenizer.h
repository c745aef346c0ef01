// Megatron-LM's HuggingFaceTokenizer: a byte-level BPE tokenizer.json (text/tokenizer_json.h). The ids are the same as
// in transformers.
//
// Added tokens in text, including special tokens, are encoded as their ids, as in Hugging Face's tokenizers. (So data
// can forge the end of a document. GPT2BPETokenizer encodes special tokens as ordinary text.) Special tokens that the
// post-processor adds around text (Llama 3's <|begin_of_text|>) are omitted unless requested.
//
// The files next to tokenizer.json change properties of added tokens and list special tokens, as in transformers
// (text/hf_companions.h). A token in these files that is not in tokenizer.json is an error; transformers would add it
// to the vocabulary. The end-of-document token is these files' eos_token, otherwise sep_token, as in Megatron-LM. If
// there is neither, it is the first of <|endoftext|>, <|end_of_text|>, </s>, <eos> that exists.
#pragma once

#include "text/bpe_model.h"
#include "text/hf_companions.h"
#include "text/normalizer.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace mtl {

class HfTokenizer : public Tokenizer {
 public:
  /// `path` is a tokenizer.json. If `with_special` is true, adds the post-processor's special tokens around every text.
  HfTokenizer(const std::string& path, bool with_special);
  /// Returns the path of tokenizer.json, followed by the paths of files next to it that are read if they exist. `path`
  /// is the file or its folder.
  static std::vector<std::string> files(const std::string& path);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override { return bytes_.decode(ids, path_); }
  std::int64_t vocab_size() const override { return bytes_.size(); }
  std::int32_t eod() const override;
  std::int32_t pad() const override { return pad_; }
  std::string type() const override { return "HuggingFaceTokenizer"; }
  std::uint64_t hash() const override { return hash_; }
  /// Writes tokenizer.json as it was read, and the files that were next to it. If there were none, writes a
  /// tokenizer_config.json.
  void save(const std::string& folder) const override;

 private:
  class HfEncoder;
  void apply_companions(const HfCompanions& companions);
  void add_token(const HfCompanions::Addition& addition);
  void make_finders(bool split_special_tokens);
  void check_template() const;

  std::string path_, text_;                                      // the file and its content
  std::vector<std::pair<std::string, std::string>> companions_;  // name and contents of the files next to it
  TokenizerJson parts_;
  BpeVocabulary all_tokens_;  // added ones included
  BpeModel model_;
  TokenBytes bytes_;
  NfcNormalizer nfc_;
  TokenFinder raw_finder_, normalized_finder_;  // for added tokens, in the original and in the normalized text
  std::string eod_name_;
  std::int32_t eod_ = -1, pad_ = -1;
  std::uint64_t hash_ = 0;
};

}  // namespace mtl
