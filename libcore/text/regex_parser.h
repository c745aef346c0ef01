// Compiles a regular expression to a program (syntax: text/regex.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace mtl {

/// Compiles one pattern. parse() may be called only once.
class RegexParser {
 public:
  RegexParser(std::string_view pattern, std::vector<CharSet>& sets) : pattern_(pattern), sets_(sets) {}
  /// Appends the sets that the program uses to `sets`. Throws Error(bad_data) for unsupported syntax.
  std::vector<Regex::Instruction> parse();

 private:
  /// A part of a program. Jump targets are relative to its start; jumps out of it lead to its end.
  using Code = std::vector<Regex::Instruction>;
  struct Atom {
    Code code;
    bool can_be_empty = false;
    bool is_single = false;  // exactly one character from a set
  };
  struct Repeat {
    std::size_t least = 1, most = 1;  // most: kNoLimit
    enum class Kind { greedy, lazy, possessive } kind = Kind::greedy;
  };

  [[noreturn]] void refuse(const std::string& what) const;
  bool at_end() const { return at_ == pattern_.size(); }
  bool take(std::string_view text);
  std::uint32_t next_char();
  Atom parse_alternatives();
  Atom parse_sequence();
  Atom parse_atom();
  Atom parse_group();
  Atom parse_lookahead(Regex::Op op);
  Atom single(CharSet set);
  CharSet parse_class();
  /// Parses an escape after the backslash. Either adds a set (\s, \p{L}) to `set` or returns one character.
  std::optional<std::uint32_t> parse_escape(CharSet& set);
  std::uint32_t parse_hex(std::size_t min_digits, std::size_t max_digits);
  void parse_property(CharSet& set, bool inverse);
  std::optional<Repeat> parse_repeat();
  Atom repeat(const Atom& atom, const Repeat& quantifier);
  void append(Code& code, const Code& more) const;

  std::string_view pattern_;
  std::vector<CharSet>& sets_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool ignores_case_ = false;
  std::uint32_t last_folded_ = 0;  // preceding literal under (?i:), to find pairs that fold to one character
};

}  // namespace mtl
