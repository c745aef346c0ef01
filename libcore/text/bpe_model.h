// The merge loop of byte-level BPE: one pre-token to token ids.
//
// A piece starts as its bytes; the adjacent pair with the lowest rank, the leftmost among equals, is joined until no
// pair has a rank. Short pieces do this in place; long ones with a heap (text/merge_loop.h), n log n in their length.
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
  /// Throws Error(bad_data), which starts with `source`, when a byte has no token, a token has two ids or a merge names
  /// unknown tokens.
  BpeModel(const BpeVocabulary& vocabulary, const std::string& source);

  /// Two tokens, how urgent it is to join them (the least first), and what they become.
  struct Join {
    std::uint32_t left, right, rank, joined;
  };
  BpeModel(const std::array<std::uint32_t, 256>& byte_tokens, std::span<const Join> joins);

  /// From now on a piece with these bytes is this token, whatever its merges would give.
  void take_whole(std::string bytes, std::int32_t token) { whole_.emplace(std::move(bytes), token); }
  bool takes_whole() const { return !whole_.empty(); }

  /// False when no merge joins a token that ends with the byte `left` to one that begins with `right`: where these two
  /// meet, a piece can be cut and its parts be encoded by themselves.
  bool may_join(char left, char right) const { return meetings_[meeting(left, right)]; }

  /// Pieces and tokens that large encoders share.
  const std::shared_ptr<PretokenTables>& pretoken_tables() const { return pretoken_tables_; }

  /// Appends the tokens of one pre-token.
  void encode_piece(std::string_view piece, MergeScratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  static std::size_t meeting(char left, char right) { return byte_of(left) << 8 | byte_of(right); }
  class TokenEdges;
  void set_byte_pairs();
  void encode_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void encode_long(std::string_view piece, MergeScratch& scratch, std::vector<std::int32_t>& out) const;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::array<std::uint32_t, 256> byte_tokens_{};
  PairTable pairs_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> whole_;
  std::vector<std::uint64_t> byte_pairs_;  // pairs_ for the tokens of two bytes, where every piece begins
  std::bitset<1 << 16> meetings_;
  std::shared_ptr<PretokenTables> pretoken_tables_ = std::make_shared<PretokenTables>(18);
};

}  // namespace mtl
