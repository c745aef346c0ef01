#include "text/split_pattern.h"

#include "base/str.h"
#include "base/utf8.h"
#include "text/unicode_categories.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

using Contractions = SplitRules::Contractions;

constexpr std::string_view kContraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kWordPrefix = R"([^\r\n\p{L}\p{N}]?)";

/// A character, its class and its length in bytes.
struct Glyph {
  std::uint32_t code;
  CharClass value;
  int length;
};

Glyph glyph_at(const char* at, const char* end) {
  unsigned char byte = *at;
  if (byte < 0x80) [[likely]]
    return {byte, class_of(byte), 1};
  Utf8Char next = next_utf8(at, end);
  return {next.code, class_of(next.code), next.length};
}

bool is_line_end(std::uint32_t code) { return code == '\r' || code == '\n'; }

/// Returns the end of the run of characters that starts at `at` and for each of which matches(glyph) is true.
template <class Matches>
const char* run_end(const char* at, const char* end, const Matches& matches) {
  while (at < end) {
    Glyph next = glyph_at(at, end);
    if (!matches(next)) break;
    at += next.length;
  }
  return at;
}

const char* class_end(const char* at, const char* end, CharClass value) {
  return run_end(at, end, [value](const Glyph& glyph) { return glyph.value == value; });
}

/// Returns the end of the contraction at `at`, in upper or lower case, or `at` if there is none.
const char* contraction_end(const char* at, const char* end) {
  if (end - at < 2 || *at != '\'') return at;
  auto lower = [&](int i) { return at + i < end ? static_cast<char>(at[i] | 0x20) : '\0'; };
  char first = lower(1), second = lower(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  bool is_long_s = end - at > 2 && at[1] == '\xC5' && at[2] == '\xBF';  // U+017F, which equals s if case is ignored
  return is_long_s ? at + 3 : at;
}

constexpr CategorySet kUpperSet = category_set(Category::Lu, Category::Lt, Category::Lm, Category::Lo, Category::M);
constexpr CategorySet kLowerSet = category_set(Category::Ll, Category::Lm, Category::Lo, Category::M);

constexpr auto is_in_upper = [](const Glyph& glyph) { return is_in(kUpperSet, glyph.code); };
constexpr auto is_in_lower = [](const Glyph& glyph) { return is_in(kLowerSet, glyph.code); };

/// Matches U*V+ greedily. If no V follows, gives back the characters from U after the last one that V also matches.
/// Returns null if there is no match.
const char* mixed_case_end(const char* at, const char* end) {
  const char* shared = at;  // after the last character from U that V also matches
  const char* begin = at;
  while (at < end) {
    Glyph next = glyph_at(at, end);
    if (!is_in_upper(next)) break;
    at += next.length;
    if (is_in_lower(next)) shared = at;
  }
  if (const char* found = run_end(at, end, is_in_lower); found > at) return found;
  return shared > begin ? shared : nullptr;
}

/// Matches U+V* where U*V+ does not match, so that no V follows. Returns null if there is no U.
const char* upper_case_end(const char* at, const char* end) {
  const char* found = run_end(at, end, is_in_upper);
  return found > at ? found : nullptr;
}

/// Tries both alternatives, each first with and then without a character before the word. Returns `at` if neither
/// matches.
const char* cased_word_end(const char* at, const char* end, const Glyph& first) {
  bool takes_one = first.value != CharClass::letter && first.value != CharClass::number && !is_line_end(first.code);
  const char* word = at + first.length;
  for (auto* match : {mixed_case_end, upper_case_end}) {
    const char* found = takes_one ? match(word, end) : nullptr;
    if (found == nullptr) found = match(at, end);
    if (found != nullptr) return found;
  }
  return at;
}

const char* word_end(const char* at, const char* end, const Glyph& first) {
  if (first.value == CharClass::letter) return class_end(at + first.length, end, CharClass::letter);
  if (first.value == CharClass::number || is_line_end(first.code) || at + first.length == end) return at;
  const char* found = class_end(at + first.length, end, CharClass::letter);
  return found > at + first.length ? found : at;
}

const char* number_end(const SplitRules& rules, const char* at, const char* end) {
  for (int digits = rules.three_digits ? 3 : 1; digits > 0 && at < end; --digits) {
    Glyph next = glyph_at(at, end);
    if (next.value != CharClass::number) break;
    at += next.length;
  }
  return at;
}

/// Returns the end of the whitespace pre-token that starts at `at`.
const char* space_end(const char* at, const char* end) {
  const char* last = at;      // where its last character begins
  const char* line_end = at;  // after its last line end
  const char* next = at;
  while (next < end) {
    Glyph here = glyph_at(next, end);
    if (here.value != CharClass::space) break;
    last = next;
    next += here.length;
    if (is_line_end(here.code)) line_end = next;
  }
  if (line_end > at) return line_end;
  return next == end || last == at ? next : last;
}

}  // namespace

std::string pattern_of(const SplitRules& rules) {
  std::string out;
  if (rules.contractions == Contractions::first) out += cat(kContraction, "|");
  std::string suffix = rules.contractions == Contractions::last ? cat(kContraction, "?") : "";
  if (rules.cased) {
    out += cat(kWordPrefix, kUpper, "*", kLower, "+", suffix, "|", kWordPrefix, kUpper, "+", kLower, "*", suffix, "|");
  } else {
    out += cat(kWordPrefix, R"(\p{L}+)", suffix, "|");
  }
  out += rules.three_digits ? R"(\p{N}{1,3}|)" : R"(\p{N}|)";
  out += cat(R"( ?[^\s\p{L}\p{N}]+[\r\n)", rules.with_slashes ? "/" : "", R"(]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  return out;
}

std::optional<SplitRules> find_split_rules(std::string_view pattern) {
  // These spellings are equivalent for three reasons: at most one contraction matches; where a possessive repetition
  // ends, backtracking into a greedy one would not help (except in a cased word); and \s* takes all line ends except
  // one.
  std::string text(pattern);
  text = replace_all(text, "'(?i:[sdmt]|ll|ve|re)", kContraction);
  text = replace_all(text, R"(|\s*[\r\n]|)", R"(|\s*[\r\n]+|)");
  text = replace_all(text, R"(| ?[^\s\p{L}\p{N}]++)", R"(| ?[^\s\p{L}\p{N}]+)");
  text = replace_all(text, R"([^\r\n\p{L}\p{N}]?+\p{L}+)", R"([^\r\n\p{L}\p{N}]?\p{L}+)");
  for (Contractions contractions : {Contractions::none, Contractions::first, Contractions::last}) {
    for (int bits = 0; bits < 8; ++bits) {
      SplitRules rules{.contractions = contractions,
                       .cased = (bits & 1) != 0,
                       .three_digits = (bits & 2) != 0,
                       .with_slashes = (bits & 4) != 0};
      if (pattern_of(rules) == text) return rules;
    }
  }
  return {};
}

const char* pretoken_end(const SplitRules& rules, const char* at, const char* end) {
  if (rules.contractions == Contractions::first) {
    if (const char* found = contraction_end(at, end); found > at) return found;
  }
  Glyph first = glyph_at(at, end);
  if (const char* found = rules.cased ? cased_word_end(at, end, first) : word_end(at, end, first); found > at)
    return rules.contractions == Contractions::last ? contraction_end(found, end) : found;
  if (first.value == CharClass::number) return number_end(rules, at, end);
  const char* others = *at == ' ' ? at + 1 : at;
  if (const char* found = class_end(others, end, CharClass::other); found > others) {
    while (found < end && (is_line_end(byte_of(*found)) || (rules.with_slashes && *found == '/'))) ++found;
    return found;
  }
  return space_end(at, end);
}

}  // namespace mtl
