// The merge loop of byte-level BPE: one pre-token to token ids.
//
// A piece starts as its bytes; the adjacent pair with the lowest rank, the leftmost among equals, is joined until no
// pair has a rank. Short pieces do this in place; long ones with a heap, n log n in their length.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace mtl {

/// Pairs of tokens to (rank, joined token), in one open-addressed table.
class PairTable {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Room for `pairs` pairs.
  explicit PairTable(std::size_t pairs);
  void set(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t joined);

  /// rank << 32 | joined token, so that the smallest is the most urgent; kNone when the pair is never joined.
  std::uint64_t find(std::uint32_t left, std::uint32_t right) const {
    std::uint64_t key = std::uint64_t{left} << 32 | right;
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].value;
      if (slots_[at].key == kNone) return kNone;
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kNone, value = kNone;
  };
  std::size_t home(std::uint64_t key) const { return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_); }
  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

class BpeModel {
 public:
  /// Throws Error(bad_data), which starts with `source`, when a byte has no token or a merge names unknown tokens.
  BpeModel(const BpeVocabulary& vocabulary, const std::string& source);

  /// Two tokens, how urgent it is to join them (the least first), and what they become.
  struct Join {
    std::uint32_t left, right, rank, joined;
  };
  BpeModel(const std::array<std::uint32_t, 256>& byte_tokens, std::span<const Join> joins);

  /// From now on a piece with these bytes is this token, whatever its merges would give.
  void take_whole(std::string bytes, std::int32_t token) { whole_.emplace(std::move(bytes), token); }
  bool takes_whole() const { return !whole_.empty(); }

  /// Memory that the merge loop keeps between calls; one per thread.
  struct Scratch {
    struct Node {
      std::uint64_t pair;  // what joining with the next node would give
      std::uint32_t token, previous, next;
    };
    struct Candidate {
      std::uint64_t pair;
      std::uint32_t at;
    };
    std::vector<Node> nodes;
    std::vector<Candidate> heap;
  };

  /// False when no merge joins a token that ends with the byte `left` to one that begins with `right`: where these two
  /// meet, a piece can be cut and its parts be encoded by themselves.
  bool may_join(char left, char right) const { return meetings_[meeting(left, right)]; }

  /// Appends the tokens of one pre-token.
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  static std::size_t meeting(char left, char right) {
    return static_cast<std::size_t>(static_cast<unsigned char>(left) << 8 | static_cast<unsigned char>(right));
  }
  void set_joins(std::span<const Join> joins);
  void encode_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void encode_long(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::array<std::uint32_t, 256> byte_tokens_{};
  PairTable pairs_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> whole_;
  std::vector<std::uint64_t> byte_pairs_;  // pairs_ for the tokens of two bytes, where every piece begins
  std::bitset<1 << 16> meetings_;
};

}  // namespace mtl
