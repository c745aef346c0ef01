// A hand-written splitter for the family of split patterns that current tokenizers use (Llama 3 and cl100k, Qwen,
// o200k, Mistral, Megatron-LM's v1 and v2).
//
// A pattern in the family is a list of alternatives. The first one that matches at the start of a pre-token applies:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)            a contraction; only with Contractions::first
//   [^\r\n\p{L}\p{N}]?\p{L}+                letters, after at most one character other than line ends and numbers
//   \p{N}{1,3}  or  \p{N}                   digits
//    ?[^\s\p{L}\p{N}]+[\r\n]*               other characters and line ends after them; or [\r\n/]*
//   \s*[\r\n]+|\s+(?!\S)|\s+                whitespace: up to its last line end; all but the last character; all
//
// With `cased`, there are two alternatives for words instead: [^\r\n\p{L}\p{N}]?U*V+ and [^\r\n\p{L}\p{N}]?U+V*, where
// U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and V is [\p{Ll}\p{Lm}\p{Lo}\p{M}]. With Contractions::last, an optional
// contraction follows each alternative for words. Bytes that are not UTF-8 count as other characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtl {

inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct SplitRules {
  enum class Contractions { none, first, last } contractions = Contractions::first;
  bool cased = false;         // words end where lower case changes to upper case
  bool three_digits = true;   // numbers have up to three digits; otherwise, each digit is a pre-token
  bool with_slashes = false;  // slashes may follow other characters, as line ends do
  bool operator==(const SplitRules&) const = default;
};

/// Returns the rules as a regular expression.
std::string pattern_of(const SplitRules& rules);
/// Returns the rules for a regular expression in the family, in every spelling in use. Returns nothing for other
/// regular expressions.
std::optional<SplitRules> find_split_rules(std::string_view pattern);

/// Returns the end of the pre-token that starts at `at`, in (at, end]. at < end must be true.
const char* pretoken_end(const SplitRules& rules, const char* at, const char* end);

}  // namespace mtl
