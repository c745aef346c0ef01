// Regular expressions over code points for the split patterns in tokenizer files, in time linear in the text.
//
// Supported: alternatives; groups ( ) (?: ) (?i: ), and (?i); characters, dot, classes [..] [^..] with ranges; \s \S \d
// \D \r \n \t \f \v \xHH \x{H..} \uHHHH; \p{..} \P{..} \p{^..} with a general category, one of L N M P S Z Lu Ll Lt Lm
// Lo Nd Nl No Pc; ? * + {m} {m,} {m,n}, greedy or lazy, possessive (?+ *+ ++) on single characters; lookahead (?=X)
// (?!X) for one character X. Throws Error(bad_data) with the unsupported syntax for anything else, and for a pattern
// that matches the empty string. (?i:) applies to ASCII letters and to the two characters that fold to ASCII letters,
// U+017F and U+212A.
//
// A match is the one that backtracking would find: the leftmost match, with the first alternatives and the greediest
// repetitions that lead to a match. The search follows all paths in lockstep (Pike's VM), in the order in which
// backtracking would try them, so that no pattern is slow. One search takes at most one step per instruction and
// character. All searches in a text together take at most kBlock times as many steps, because we remember paths that
// failed beyond the end of a match. Bytes that are not UTF-8 count as U+FFFD.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/unicode_categories.h"

namespace mtl {

/// A set of code points.
class CharSet {
 public:
  void add_range(std::uint32_t first, std::uint32_t last) { ranges_.push_back({first, last}); }
  /// If `inverse` is true, adds all other categories instead.
  void add_categories(CategorySet set, bool inverse);
  void add_space(bool inverse) { (inverse ? has_non_space_ : has_space_) = true; }
  void invert() { inverted_ = true; }
  /// For each ASCII letter in the set, adds the same letter in the other case and the characters that fold to it.
  /// Returns false if the set contains anything but ASCII ranges.
  bool fold_case();
  /// Completes the set: fills in the ASCII table for contains(). Must be called before contains().
  void seal();
  bool contains(std::uint32_t code) const {
    return code < 0x80 ? (ascii_[code >> 6] >> (code & 63) & 1) != 0 : search(code);
  }

 private:
  bool search(std::uint32_t code) const;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges_;
  CategorySet categories_ = 0;
  bool has_space_ = false, has_non_space_ = false, inverted_ = false;
  std::uint64_t ascii_[2] = {0, 0};
};

class Regex {
 public:
  explicit Regex(std::string_view pattern);
  const std::string& pattern() const { return pattern_; }

  struct Match {
    std::size_t begin, end;  // bytes
  };
  /// A path that the search follows: the current instruction, and where the match started.
  struct Path {
    std::uint32_t at;
    std::size_t begin;
  };
  /// Memory for a search, kept between calls. Use one object per thread.
  struct Scratch {
    std::vector<Path> now, next;
    std::vector<std::uint32_t> stack;
    std::vector<std::size_t> seen;  // by instruction: the last step that reached it
    std::size_t step = 0;
    std::vector<std::uint64_t> ahead;          // path_key() of paths beyond this search's best match
    std::unordered_set<std::uint64_t> failed;  // keys of paths that did not match, in all searches in this text
  };
  /// We remember failed paths at one position in each block of this many bytes.
  static constexpr std::size_t kBlock = 32;

  /// Returns the first match at or after `from`, which must be 0 or the end of the previous match. scratch.failed must
  /// be empty before the first search in a text.
  std::optional<Match> find(std::string_view text, std::size_t from, Scratch& scratch) const;

  enum class Op : std::uint8_t { take, fork, jump, followed_by, not_followed_by, match };
  struct Instruction {
    Op op;
    std::uint32_t a = 0, b = 0;  // jump, fork: targets, preferred first; match: none; others: a is a set's index
  };

 private:
  struct Upcoming;
  std::uint64_t path_key(std::uint32_t instruction, std::size_t at) const {
    return at / kBlock * program_.size() + instruction;
  }
  void drop_failed(std::size_t at, Scratch& scratch) const;
  void expand(Path path, const Upcoming& upcoming, Scratch& scratch, std::vector<Path>& out) const;
  std::string pattern_;
  std::vector<CharSet> sets_;
  std::vector<Instruction> program_;
};

}  // namespace mtl
