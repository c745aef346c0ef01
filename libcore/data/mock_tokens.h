// Generated tokens, for runs without data, such as benchmarks. As in Megatron-LM, a sequence counts 1, 2, 3, ... and
// ends with the end-of-document token, and has up to 4,095 tokens. The lengths depend on the sequence alone, but differ
// from Megatron-LM's. The count leaves out the end-of-document token, and starts again at the end of the vocabulary.
#pragma once

#include <vector>

#include "data/token_data.h"

namespace mtl {

class MockTokens : public TokenData {
 public:
  /// `eod` must be in the vocabulary. Ids are `eod` and those from 1 to `vocab_size` - 1; if there is no other id than
  /// `eod`, also 0.
  MockTokens(std::int32_t eod, std::int64_t vocab_size);

  const std::string& name() const override { return name_; }
  SequenceLengths lengths() const override;
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;

 private:
  std::string name_ = "--mock-data";
  std::int32_t eod_;
  std::int64_t counted_;  // different ids that a sequence counts through
  std::vector<std::int32_t> lengths_;
};

}  // namespace mtl
