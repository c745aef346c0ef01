// The bytes of every token in a vocabulary, for decoding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

class TokenBytes {
 public:
  TokenBytes() = default;
  /// Special tokens are spelled literally. All other tokens' characters stand for bytes.
  explicit TokenBytes(const BpeVocabulary& vocabulary);
  /// Adds the token for the next id. `bytes` is empty if the id has no token.
  void add(std::string_view bytes);
  std::int64_t size() const { return std::ssize(begin_) - 1; }
  /// Throws Error(bad_data) with `source` in the message for an id without a token.
  std::string decode(std::span<const std::int32_t> ids, const std::string& source) const;

 private:
  std::string bytes_;                     // all tokens, one after another
  std::vector<std::size_t> begin_ = {0};  // (tokens + 1)
};

}  // namespace mtl
