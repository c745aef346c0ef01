// Megatron-LM's NullTokenizer: text consists of decimal ids separated by single spaces.
//
// Accepts every id that Python's int() accepts (`007`, `+5`, `1_000`). Throws Error(bad_data) for an empty id (two
// spaces in a row), and for an id outside the vocabulary. (Megatron-LM writes such an id if it fits the .bin file's
// data type.) The default end-of-document token is vocab_size - 1, as in Megatron-LM since v0.13.
#pragma once

#include "text/tokenizer.h"

namespace mtl {

class NullTokenizer : public Tokenizer {
 public:
  /// If `eod` is beyond the vocabulary, enlarges the vocabulary. Throws Error(usage) for a negative end-of-document id,
  /// and for more than 2^31 - 1 ids.
  NullTokenizer(std::int64_t vocab_size, std::optional<std::int64_t> eod);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::int32_t eod() const override { return eod_; }
  std::string type() const override { return "NullTokenizer"; }
  std::uint64_t hash() const override;
  void save(const std::string&) const override {}

 private:
  std::int64_t vocab_size_;
  std::int32_t eod_;
};

}  // namespace mtl
