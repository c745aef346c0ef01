// Byte-level BPE for a single pre-token.
//
// A pre-token starts as a sequence of its bytes. We repeatedly merge the adjacent pair with the lowest rank, or the
// leftmost such pair, until no pair has a rank. Short pre-tokens are merged in place; long ones are merged with a
// heap (text/merge_loop.h) in O(n log n).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "text/bpe_vocabulary.h"
#include "text/merge_loop.h"
#include "text/pretoken_table.h"

namespace mtl {

class BpeModel {
 public:
  /// Throws Error(bad_data), with a message that starts with `source`, if a byte of UTF-8 text has no token, if a token
  /// has two ids, if a merge contains or produces an unknown token, or if no merge makes a token that needs one. With
  /// `ignore_merges`, which add_whole_pretoken() implements, only tokens without any merges are refused.
  BpeModel(const BpeVocabulary& vocabulary, const std::string& source, bool ignore_merges = false);

  /// Merges the tokens `left` and `right` into `merged`. The merge with the lowest rank is applied first.
  struct MergeRule {
    std::uint32_t left, right, rank, merged;
  };
  /// `byte_tokens` contains each byte's token.
  BpeModel(const std::array<std::uint32_t, 256>& byte_tokens, std::span<const MergeRule> rules);

  /// Makes encode_pretoken() encode a pre-token with exactly these bytes as one token, without merging.
  void add_whole_pretoken(std::string bytes, std::int32_t token) { whole_pretokens_.emplace(std::move(bytes), token); }
  bool has_whole_pretokens() const { return !whole_pretokens_.empty(); }

  /// Returns false if no merge combines a token that ends with the byte `left` and one that starts with the byte
  /// `right`. We can then cut a pre-token between these two bytes, and encode the parts separately.
  bool may_merge(char left, char right) const { return may_merge_[byte_pair(left, right)]; }

  /// The cache that encoders with large memory share.
  const std::shared_ptr<PretokenTables>& pretoken_tables() const { return pretoken_tables_; }

  /// Appends the tokens of one pre-token, or of a part of it that no merge crosses. Throws Error(bad_data) if the
  /// pre-token has 2^32 - 1 bytes or more.
  void encode_pretoken(std::string_view pretoken, MergeScratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  static std::size_t byte_pair(char left, char right) { return byte_of(left) << 8 | byte_of(right); }
  class TokenEdges;
  void set_byte_pairs();
  void encode_short(std::string_view pretoken, std::vector<std::int32_t>& out) const;
  void encode_long(std::string_view pretoken, MergeScratch& scratch, std::vector<std::int32_t>& out) const;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::array<std::uint32_t, 256> byte_tokens_{};
  PairTable pairs_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> whole_pretokens_;
  std::vector<std::uint64_t> byte_pairs_;  // by byte_pair(): pairs_.find() for the two bytes' tokens
  std::bitset<1 << 16> may_merge_;         // by byte_pair()
  std::shared_ptr<PretokenTables> pretoken_tables_ = std::make_shared<PretokenTables>(18);
};

}  // namespace mtl
