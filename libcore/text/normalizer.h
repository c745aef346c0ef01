// Unicode normalization form C (NFC): composes characters with the marks that follow them if a composed character
// exists.
//
// Implements Unicode Standard Annex #15 with the Unicode 9.0 tables, like Hugging Face's normalizer, so that ids are
// equal. Does not change characters that were added later, or bytes that are not UTF-8. Text that is already
// normalized, such as ASCII, is only scanned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mtl {

class NfcNormalizer {
 public:
  NfcNormalizer();
  /// Returns the normalized text: either `text` itself or a view of `buffer`, whose contents are replaced. `text` must
  /// not be a view of `buffer`.
  std::string_view normalize(std::string_view text, std::string& buffer) const;

 private:
  struct Mark {
    std::uint32_t code;
    std::uint8_t combining;
  };
  /// Returns false for a character that never changes and never composes with the preceding one. Text can be cut before
  /// such a character.
  bool may_change(std::uint32_t code) const { return (involved_[code >> 6] >> (code & 63) & 1) != 0; }
  void involve(std::uint32_t code) { involved_[code >> 6] |= std::uint64_t{1} << (code & 63); }
  std::uint8_t combining_of(std::uint32_t code) const;
  void append_decomposed(std::uint32_t code, std::vector<Mark>& out) const;
  std::uint32_t compose(std::uint32_t first, std::uint32_t second) const;
  void append_composed(std::string_view text, std::string& out) const;

  std::vector<std::uint64_t> involved_;  // one bit per code point
  std::unordered_map<std::uint32_t, std::uint8_t> combining_;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> parts_;  // second: 0 if there is only one
  std::unordered_map<std::uint64_t, std::uint32_t> composed_;                         // first << 32 | second
};

}  // namespace mtl
