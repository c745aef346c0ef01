// The bytes of every token of a vocabulary, for decoding.
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
  /// Special tokens are spelled literally. The characters of all other tokens stand for bytes.
  explicit TokenBytes(const BpeVocabulary& vocabulary);
  /// Adds the token of the next id. `bytes` is empty if the id has no token.
  void add(std::string_view bytes);
  std::int64_t size() const { return std::ssize(begin_) - 1; }
  /// Throws Error(bad_data), which names `source`, for an id without a token.
  std::string decode(std::span<const std::int32_t> ids, const std::string& source) const;

 private:
  std::string bytes_;                     // of all tokens, one after another
  std::vector<std::size_t> begin_ = {0};  // (tokens + 1)
};

}  // namespace mtl
