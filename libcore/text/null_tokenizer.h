// Megatron's NullTokenizer: a text is already ids in decimal, with exactly one blank between them.
//
// Each piece is what Python's int() takes (`007`, `+5`, `1_000`); an empty piece is an error, and so is an id outside
// the vocabulary, which Megatron writes where the .bin's data type can hold it. The end-of-document token is vocab_size
// - 1, as in Megatron since v0.13.
#pragma once

#include "text/tokenizer.h"

namespace mtl {

class NullTokenizer : public Tokenizer {
 public:
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
