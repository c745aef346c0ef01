// Generated tokens, for runs without data, such as benchmarks. As in Megatron-LM, a sequence counts 1, 2, 3, ... and
// ends with the end-of-document token, and has up to 4,095 tokens. The lengths depend on the sequence alone, but differ
// from Megatron-LM's. Ids start again at 1 below the end-of-document token, so that they fit any vocabulary.
#pragma once

#include <vector>

#include "data/token_data.h"

namespace mtl {

class MockTokens : public TokenData {
 public:
  /// `eod` must be at least 1: ids are in [1, eod], or 0 if eod is 1.
  explicit MockTokens(std::int32_t eod);

  const std::string& name() const override { return name_; }
  SequenceLengths lengths() const override;
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;

 private:
  std::string name_ = "--mock-data";
  std::int32_t eod_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace mtl
