// GPT-2's byte-level BPE as a Tokenizer (encoding: text/bpe_encoder.h).
#pragma once

#include <mutex>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/bpe_vocabulary.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"

namespace mtl {

class BpeTokenizer : public Tokenizer {
 public:
  /// `source` is the file name for error messages. Throws BpeModel's errors.
  BpeTokenizer(BpeVocabulary vocabulary, std::string source, bool parse_special_tokens = false);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override { return std::ssize(vocabulary_.tokens); }
  std::int32_t eod() const override;
  std::string type() const override { return "GPT2BPETokenizer"; }
  std::uint64_t hash() const override;
  void save(const std::string& folder) const override;

 private:
  BpeVocabulary vocabulary_;
  std::string source_;
  BpeModel model_;
  mutable std::once_flag bytes_once_;
  mutable TokenBytes bytes_;  // filled in by the first decode(), because most programs only encode
  TokenFinder special_;       // empty if special tokens are ordinary text
  std::int32_t eod_;
};

}  // namespace mtl
