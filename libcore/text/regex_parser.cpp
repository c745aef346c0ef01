#include "text/regex_parser.h"

#include "base/error.h"
#include "base/json_cursor.h"
#include "base/utf8.h"

namespace mtl {

namespace {

using Op = Regex::Op;

constexpr std::size_t kNoLimit = ~std::size_t{0};
constexpr std::size_t kMaxRepeats = 1000, kMaxInstructions = 20000;
constexpr int kMaxNested = 100;

/// Returns the categories in \p{name}, or nothing if the property is not supported.
std::optional<CategorySet> find_property(std::string_view name) {
  using enum Category;
  constexpr std::pair<std::string_view, CategorySet> kNames[] = {
      {"L", kLetters},          {"N", kNumbers},          {"M", category_set(M)},   {"P", category_set(P, Pc)},
      {"S", category_set(S)},   {"Z", category_set(Z)},   {"Lu", category_set(Lu)}, {"Ll", category_set(Ll)},
      {"Lt", category_set(Lt)}, {"Lm", category_set(Lm)}, {"Lo", category_set(Lo)}, {"Nd", category_set(Nd)},
      {"Nl", category_set(Nl)}, {"No", category_set(No)}, {"Pc", category_set(Pc)},
  };
  for (const auto& [known, set] : kNames) {
    if (known == name) return set;
  }
  return {};
}

}  // namespace

void RegexParser::refuse(const std::string& what) const {
  fail(Exit::bad_data, "the pattern \"", pattern_, "\" has ", what, " (at byte ", at_,
       "), which is not supported; use a tokenizer with another pattern");
}

bool RegexParser::take(std::string_view text) {
  if (!starts_with(pattern_.substr(at_), text)) return false;
  at_ += text.size();
  return true;
}

std::uint32_t RegexParser::next_char() {
  if (at_end()) refuse("an unexpected end");
  Utf8Char next = next_utf8(pattern_.data() + at_, pattern_.data() + pattern_.size());
  if (!next.valid) refuse("bytes that are not UTF-8");
  at_ += next.length;
  return next.code;
}

std::vector<Regex::Instruction> RegexParser::parse() {
  Atom all = parse_alternatives();
  if (!at_end()) refuse("a ) without its (");
  if (all.can_be_empty) refuse("a match of the empty string");
  all.code.push_back({Op::match});
  return std::move(all.code);
}

void RegexParser::append(Code& code, const Code& more) const {
  if (code.size() + more.size() > kMaxInstructions) refuse("too many repetitions");
  auto base = static_cast<std::uint32_t>(code.size());
  for (Regex::Instruction instruction : more) {
    if (instruction.op == Op::jump || instruction.op == Op::fork) instruction.a += base, instruction.b += base;
    code.push_back(instruction);
  }
}

RegexParser::Atom RegexParser::parse_alternatives() {
  if (++depth_ > kMaxNested) refuse("too many nested groups");
  bool ignored_case = ignores_case_;  // (?i) applies until the end of its group
  std::vector<Atom> choices{parse_sequence()};
  while (take("|")) choices.push_back(parse_sequence());
  ignores_case_ = ignored_case;
  --depth_;
  if (choices.size() == 1) return std::move(choices[0]);
  // fork 1, next; ...; jump end; next: fork 2, ...
  Atom out;
  std::vector<std::size_t> exits;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    auto here = static_cast<std::uint32_t>(out.code.size());
    bool is_last = i + 1 == choices.size();
    if (!is_last) {
      auto other = here + 2 + static_cast<std::uint32_t>(choices[i].code.size());
      append(out.code, {{Op::fork, 1, other - here}});
    }
    append(out.code, choices[i].code);
    out.can_be_empty = out.can_be_empty || choices[i].can_be_empty;
    if (is_last) continue;
    exits.push_back(out.code.size());
    out.code.push_back({Op::jump});
  }
  for (std::size_t exit : exits) out.code[exit].a = static_cast<std::uint32_t>(out.code.size());
  return out;
}

RegexParser::Atom RegexParser::parse_sequence() {
  Atom out;
  out.can_be_empty = true;
  last_folded_ = 0;
  std::size_t items = 0;
  while (!at_end() && pattern_[at_] != '|' && pattern_[at_] != ')') {
    Atom item = parse_atom();
    if (auto quantifier = parse_repeat()) {
      item = repeat(item, *quantifier);
      last_folded_ = 0;
    }
    append(out.code, item.code);
    out.can_be_empty = out.can_be_empty && item.can_be_empty;
    out.is_single = ++items == 1 && item.is_single;
  }
  return out;
}

RegexParser::Atom RegexParser::single(CharSet set) {
  set.seal();
  sets_.push_back(std::move(set));
  Atom out;
  out.is_single = true;
  out.code.push_back({Op::take, static_cast<std::uint32_t>(sets_.size() - 1)});
  return out;
}

RegexParser::Atom RegexParser::parse_atom() {
  if (pattern_[at_] == '(') {
    Atom group = parse_group();
    last_folded_ = 0;
    return group;
  }
  CharSet set;
  std::optional<std::uint32_t> literal;
  if (take("[")) {
    return single(parse_class());
  } else if (take(".")) {
    set.add_range('\n', '\n');
    set.invert();
    return single(set);
  } else if (take("\\")) {
    literal = parse_escape(set);
    if (!literal) return single(set);
  } else {
    if (std::string_view("^$*+?{").find(pattern_[at_]) != std::string_view::npos) {
      const bool is_anchor = pattern_[at_] == '^' || pattern_[at_] == '$';
      refuse(cat("a ", pattern_[at_], is_anchor ? "" : " with nothing to repeat"));
    }
    literal = next_char();
  }
  set.add_range(*literal, *literal);
  if (ignores_case_) {
    if (!set.fold_case()) refuse("a character beyond ASCII that ignores case");
    std::uint32_t lower = *literal | 0x20;
    std::string pair{static_cast<char>(last_folded_), static_cast<char>(lower)};
    for (const char* ligature : {"ss", "ff", "fi", "fl", "st"}) {
      if (pair == ligature) refuse(cat("\"", pair, "\", which a single character equals if case is ignored,"));
    }
    last_folded_ = lower;
  }
  return single(set);
}

RegexParser::Atom RegexParser::parse_group() {
  if (take("(?!")) return parse_lookahead(Op::not_followed_by);
  if (take("(?=")) return parse_lookahead(Op::followed_by);
  bool ignored_case = ignores_case_;
  if (take("(?i)")) {
    ignores_case_ = true;
    Atom rest = parse_alternatives();  // to the end of its group, including alternatives
    ignores_case_ = ignored_case;
    return rest;
  }
  if (take("(?i:")) {
    ignores_case_ = true;
  } else if (!take("(?:")) {
    take("(");
    if (!at_end() && pattern_[at_] == '?') refuse("a group with (?");
  }
  Atom out = parse_alternatives();
  ignores_case_ = ignored_case;
  if (!take(")")) refuse("a ( without its )");
  return out;
}

RegexParser::Atom RegexParser::parse_lookahead(Op op) {
  Atom inner = parse_alternatives();
  if (!take(")")) refuse("a ( without its )");
  if (!inner.is_single) refuse("a lookahead of anything but one character");
  return {{{op, inner.code[0].a}}, true, false};
}

CharSet RegexParser::parse_class() {
  CharSet set;
  bool inverse = take("^"), is_first = true;
  while (is_first || !take("]")) {
    if (at_end()) refuse("a [ without its ]");
    if (pattern_[at_] == '[') refuse("a class within a class");
    if (is_first && pattern_[at_] == ']') refuse("an empty class");
    if (starts_with(pattern_.substr(at_), "&&")) refuse("&& in a class");
    is_first = false;
    std::optional<std::uint32_t> first = take("\\") ? parse_escape(set) : next_char();
    if (!first) continue;
    std::uint32_t last = *first;
    if (at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']') {
      take("-");
      CharSet no_end;
      std::optional<std::uint32_t> end = take("\\") ? parse_escape(no_end) : next_char();
      if (!end || *end < *first) refuse("a range without an end");
      last = *end;
    }
    set.add_range(*first, last);
  }
  if (ignores_case_ && !set.fold_case()) refuse("a class beyond ASCII that ignores case");
  if (inverse) set.invert();
  return set;
}

std::optional<std::uint32_t> RegexParser::parse_escape(CharSet& set) {
  constexpr std::string_view kEscapes = "rntfv", kCharacters = "\r\n\t\f\v";
  std::uint32_t letter = next_char();
  const std::size_t simple = letter < 0x80 ? kEscapes.find(static_cast<char>(letter)) : std::string_view::npos;
  if (simple != std::string_view::npos) return kCharacters[simple];
  switch (letter) {
    case 'x':
      return take("{") ? parse_hex(1, 6) : parse_hex(2, 2);
    case 'u':
      return parse_hex(4, 4);
    case 's':
    case 'S':
      set.add_space(letter == 'S');
      return {};
    case 'd':
    case 'D':
      set.add_categories(category_set(Category::Nd), letter == 'D');
      return {};
    case 'p':
    case 'P':
      parse_property(set, letter == 'P');
      return {};
    default:
      break;
  }
  bool is_word =
      letter >= 0x80 || (letter >= '0' && letter <= '9') || ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z');
  if (is_word) refuse(cat("\\", std::string_view(pattern_).substr(at_ - 1, 1)));
  return letter;
}

std::uint32_t RegexParser::parse_hex(std::size_t min_digits, std::size_t max_digits) {
  std::uint32_t code = 0;
  std::size_t digits = 0;
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (; digits < max_digits && !at_end(); ++digits, ++at_) {
    char digit = pattern_[at_];
    std::size_t value = kDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit | 0x20) : digit);
    if (value == std::string_view::npos) break;
    code = code * 16 + static_cast<std::uint32_t>(value);
  }
  if (digits < min_digits || code > 0x10FFFF || (min_digits == 1 && !take("}")))
    refuse("a number that is not a character");
  return code;
}

void RegexParser::parse_property(CharSet& set, bool inverse) {
  std::size_t end = take("{") ? pattern_.find('}', at_) : std::string_view::npos;
  if (end == std::string_view::npos) refuse("\\p without {}");
  if (take("^")) inverse = !inverse;
  std::string_view name = pattern_.substr(at_, end - at_);
  auto property = find_property(name);
  if (!property) refuse(cat("the property \\p{", name, "}"));
  set.add_categories(*property, inverse);
  at_ = end + 1;
}

std::optional<RegexParser::Repeat> RegexParser::parse_repeat() {
  Repeat quantifier;
  bool is_counted = false;
  auto number = [&](std::size_t fallback) {
    std::size_t value = 0, digits = 0;
    for (; !at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9' && digits < 6; ++at_, ++digits)
      value = value * 10 + (pattern_[at_] - '0');
    return digits == 0 ? fallback : value;
  };
  if (take("?")) {
    quantifier.least = 0;
  } else if (take("*")) {
    quantifier.least = 0, quantifier.most = kNoLimit;
  } else if (take("+")) {
    quantifier.most = kNoLimit;
  } else if (take("{")) {
    is_counted = true;
    quantifier.least = number(kNoLimit);
    quantifier.most = take(",") ? number(kNoLimit) : quantifier.least;
    bool is_valid =
        quantifier.least <= kMaxRepeats && quantifier.least <= quantifier.most && quantifier.most > 0 && take("}");
    if (!is_valid || (quantifier.most != kNoLimit && quantifier.most > kMaxRepeats))
      refuse("a { that is not a repetition");
  } else {
    return {};
  }
  if (take("?")) quantifier.kind = Repeat::Kind::lazy;
  if (quantifier.kind == Repeat::Kind::greedy && take("+")) quantifier.kind = Repeat::Kind::possessive;
  // Hugging Face's engine and tiktoken's give these different meanings.
  if (is_counted && quantifier.kind != Repeat::Kind::greedy) refuse("a ? or + after {}");
  if (!at_end() && std::string_view("?*+{").find(pattern_[at_]) != std::string_view::npos)
    refuse("a repeated repetition");
  return quantifier;
}

RegexParser::Atom RegexParser::repeat(const Atom& atom, const Repeat& quantifier) {
  if (atom.can_be_empty) refuse("a repetition of something that can be empty");
  bool is_possessive = quantifier.kind == Repeat::Kind::possessive;
  if (is_possessive && !atom.is_single) refuse("a possessive repetition of more than one character");
  Atom out;
  out.can_be_empty = quantifier.least == 0;
  for (std::size_t i = 0; i < quantifier.least; ++i) append(out.code, atom.code);
  // A possessive repetition stops only where it cannot continue.
  Code stop;
  if (is_possessive) stop.push_back({Op::not_followed_by, atom.code[0].a});
  auto size = static_cast<std::uint32_t>(atom.code.size());
  auto fork = [&](std::uint32_t more, std::uint32_t less) {
    return quantifier.kind == Repeat::Kind::lazy ? Regex::Instruction{Op::fork, less, more}
                                                 : Regex::Instruction{Op::fork, more, less};
  };
  if (quantifier.most == kNoLimit) {
    Code loop{fork(1, size + 2)};
    append(loop, atom.code);
    loop.push_back({Op::jump, 0});
    append(loop, stop);
    append(out.code, loop);
    return out;
  }
  // Before each optional repetition, a fork can skip to the end.
  auto stop_size = static_cast<std::uint32_t>(stop.size());
  auto optional = static_cast<std::uint32_t>(quantifier.most - quantifier.least);
  Code tail;
  for (std::uint32_t i = 0; i < optional; ++i) {
    std::uint32_t rest = (optional - i) * (size + 1);  // from this fork to the end
    append(tail, {fork(1, rest)});
    append(tail, atom.code);
  }
  if (stop_size > 0) {  // only for X?+: fork, X, jump over the test
    tail.push_back({Op::jump, size + 2 + stop_size});
    tail[0].b = size + 2;
    append(tail, stop);
  }
  append(out.code, tail);
  return out;
}

}  // namespace mtl
