// Split patterns: hand-written splitters are compared with the regular expression interpreter, and both with other
// libraries.
#include "text/splitter.h"

#include <doctest/doctest.h>

#include <chrono>

#include "base/error.h"
#include "tests/error_of.h"
#include "tests/text/golden.h"
#include "tests/text/random_text.h"
#include "text/unicode_classes.h"

using namespace mtl;

namespace {

/// Returns the lengths of all pre-tokens. Reads `batch` pre-tokens at a time.
std::vector<std::int32_t> pretoken_lengths(Splitter& splitter, std::string_view text, std::size_t batch = 7) {
  std::vector<const char*> ends(batch);
  std::vector<std::int32_t> lengths;
  const char* at = text.data();
  splitter.start(text);
  while (std::size_t count = splitter.next(ends)) {
    for (std::size_t i = 0; i < count; ++i) {
      lengths.push_back(static_cast<std::int32_t>(ends[i] - at));
      at = ends[i];
    }
  }
  CHECK(at == text.data() + text.size());
  return lengths;
}

SplitStep interpreted(std::string_view pattern) { return SplitRegex{std::make_shared<Regex>(pattern)}; }

std::vector<std::string> pretokens(const std::string& pattern, const std::string& text) {
  std::vector<std::string> out;
  std::size_t at = 0;
  auto splitter = make_splitter({interpreted(pattern)});
  for (std::int32_t length : pretoken_lengths(*splitter, text)) {
    out.push_back(text.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return out;
}

std::vector<SplitRules> all_rules() {
  std::vector<SplitRules> out;
  using enum SplitRules::Contractions;
  for (auto contractions : {none, first, last}) {
    for (int bits = 0; bits < 8; ++bits)
      out.push_back({.contractions = contractions,
                     .cased = (bits & 1) != 0,
                     .three_digits = (bits & 2) != 0,
                     .with_slashes = (bits & 4) != 0});
  }
  return out;
}

}  // namespace

TEST_CASE("unicode categories: letters and numbers equal the classes") {
  std::uint32_t wrong = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    wrong += is_in(kLetters, code) != (class_of(code) == CharClass::letter);
    wrong += is_in(kNumbers, code) != (class_of(code) == CharClass::number);
  }
  CHECK(wrong == 0);
  using enum Category;
  CHECK(category_of('a') == Ll);
  CHECK(category_of(0x1C5) == Lt);
  CHECK(category_of(0x2B0) == Lm);
  CHECK(category_of(0x301) == M);
  CHECK(category_of('_') == Pc);
  CHECK(category_of('$') == S);
  CHECK(category_of(0x10FFFF) == none);
}

TEST_CASE("split patterns: hand-written and interpreted splitters return the golden pre-tokens") {
  const std::string llama3 = pattern_of({});
  CHECK(llama3 == R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                  R"(\s*[\r\n]+|\s+(?!\S)|\s+)");
  for (const auto& [key, pattern] : {std::pair{"gpt2", std::string(kGpt2Pattern)}, {"llama3", llama3}}) {
    REQUIRE_FALSE(std::holds_alternative<SplitRegex>(split_step(pattern)));
    auto by_hand = make_splitter({split_step(pattern)}), plain = make_splitter({interpreted(pattern)});
    for (const Json& item : golden_lines("golden/tokenizer/pretokens.jsonl")) {
      CAPTURE(item.at("name").as_string());
      const std::string& text = item.at("text").as_string();
      CHECK(pretoken_lengths(*by_hand, text) == ids_of(item.at(key)));
      CHECK(pretoken_lengths(*plain, text) == ids_of(item.at(key)));
    }
  }
}

TEST_CASE("split patterns: hand-written equals interpreted, on random Unicode and on invalid bytes") {
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (int round = 0; round < 1500; ++round) {
    texts.push_back(random_text(random));
    if (round % 10 == 0)
      texts.back() +=
          "a\xFF\xC3 \xE2\x82"
          "b";
  }
  for (const SplitRules& rules : all_rules()) {
    std::string pattern = pattern_of(rules);
    CAPTURE(pattern);
    auto by_hand = make_splitter({SplitStep(rules)}), plain = make_splitter({interpreted(pattern)});
    for (const std::string& text : texts) {
      CAPTURE(text);
      REQUIRE(pretoken_lengths(*by_hand, text) == pretoken_lengths(*plain, text));
    }
  }
  auto by_hand = make_splitter({SplitGpt2{}}), plain = make_splitter({interpreted(kGpt2Pattern)});
  for (const std::string& text : texts) REQUIRE(pretoken_lengths(*by_hand, text) == pretoken_lengths(*plain, text));
}

TEST_CASE("split patterns: spellings in use are recognized, and split as their regular expression does") {
  struct Spelling {
    const char* pattern;
    SplitRules rules;
  };
  using enum SplitRules::Contractions;
  const Spelling spellings[] = {
      // The order is Qwen 2, Megatron's v1, cl100k's contraction, Megatron's v2 (the same as Mistral's), o200k.
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.contractions = first, .cased = false, .three_digits = false, .with_slashes = false}},
      {R"([^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       {.contractions = none, .cased = false, .three_digits = false, .with_slashes = false}},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       {.contractions = first, .cased = false, .three_digits = true, .with_slashes = false}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.contractions = none, .cased = true, .three_digits = false, .with_slashes = true}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.contractions = last, .cased = true, .three_digits = true, .with_slashes = true}},
  };
  std::mt19937 random(4);
  for (const Spelling& spelling : spellings) {
    const std::string pattern = spelling.pattern;
    const SplitRules& rules = spelling.rules;
    CAPTURE(pattern);
    CHECK(find_split_rules(pattern) == rules);
    auto by_hand = make_splitter({SplitStep(rules)}), plain = make_splitter({interpreted(pattern)});
    for (int round = 0; round < 1000; ++round) {
      std::string text = random_text(random);
      CAPTURE(text);
      REQUIRE(pretoken_lengths(*by_hand, text) == pretoken_lengths(*plain, text));
    }
  }
  CHECK_FALSE(find_split_rules(R"(\p{L}+|\s+)"));
}

TEST_CASE("splitters: each step splits the pre-tokens of the one before it, for any batch size") {
  std::string text = "In 1984, 365 days\n\n  it's 2024  ";
  auto chain = make_splitter({SplitDigits{.one_by_one = false}, SplitGpt2{}});
  std::vector<std::int32_t> expected = {2, 1, 4, 1, 1, 3, 5, 3, 3, 2, 1, 4, 2};
  for (std::size_t batch : {1, 2, 3, 100}) CHECK(pretoken_lengths(*chain, text, batch) == expected);
  auto digits = make_splitter({SplitDigits{.one_by_one = true}});
  CHECK(pretoken_lengths(*digits,
                         "ab12\xC2\xB2"
                         "c") == std::vector<std::int32_t>{2, 1, 1, 2, 1});
  auto whole = make_splitter({});
  CHECK(pretoken_lengths(*whole, text) == std::vector<std::int32_t>{static_cast<std::int32_t>(text.size())});
  CHECK(pretoken_lengths(*chain, "").empty());
  // Three regular expressions in sequence, as in DeepSeek's tokenizer.
  auto deepseek =
      make_splitter({split_step(R"(\p{N}{1,3})"), split_step("[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F]+"),
                     split_step(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)"
                                R"([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")});
  CHECK(pretoken_lengths(*deepseek, "x.y12345\xE4\xB8\xAD\xE3\x81\x82z  !\n") ==
        std::vector<std::int32_t>{1, 2, 3, 2, 6, 1, 1, 3});
}

TEST_CASE("regex: finds what backtracking would find") {
  using Pretokens = std::vector<std::string>;
  CHECK(pretokens("a|ab", "ab") == Pretokens{"a", "b"});
  CHECK(pretokens("(?:a|ab)c", "abc") == Pretokens{"abc"});
  CHECK(pretokens("a+?b|a", "aaab") == Pretokens{"aaab"});
  CHECK(pretokens("a{2,3}", "aaaaaaa") == Pretokens{"aaa", "aaa", "a"});
  CHECK(pretokens("a{2,}|b", "aabaaaa") == Pretokens{"aa", "b", "aaaa"});
  CHECK(pretokens("a++b|a", "aaac") == Pretokens{"a", "a", "a", "c"});
  CHECK(pretokens("[ab]*+b|a", "aab") == Pretokens{"a", "a", "b"});
  CHECK(pretokens("[ab]?+b", "bbab") == Pretokens{"bb", "ab"});
  CHECK(pretokens("x(?=y)|y(?!z)", "xyxzyz") == Pretokens{"x", "y", "xzyz"});
  CHECK(pretokens("(?i)sK",
                  "Sk\xC5\xBF\xE2\x84\xAA"
                  "sx") == Pretokens{"Sk", "\xC5\xBF\xE2\x84\xAA", "sx"});
  CHECK(pretokens("(?i:[a-c])d", "AdcDbd") == Pretokens{"Ad", "cD", "bd"});
  CHECK(pretokens(R"([^\S\n]+|\P{L}\x41|\u00e9|\p{^N}\d)", "  \n1A\xC3\xA9.7?A") ==
        Pretokens{"  ", "\n1", "A", "\xC3\xA9", ".7", "?A"});
  CHECK(pretokens("\\.|[-a\\]]|[b-]", ".]-c") == Pretokens{".", "]", "-", "c"});
}

TEST_CASE("regex: memoizing failed branches changes no match") {
  const std::vector<std::string> patterns = {"a+b|a",       "(?:ab)+c|a|b",        "a{40}b|aa|b",
                                             "[ab]+c|a+?b", "(?:a|ab)+c|a(?!c)|b", "\\p{L}+\\p{N}|a|\\p{L}"};
  std::mt19937 random(12);
  for (int round = 0; round < 2000; ++round) {
    std::string text;  // long runs of a few kinds
    for (int parts = 0; parts < 4; ++parts) {
      const char* units[] = {"a", "ab", "aab", "b", "c", "\xC3\xA9", "1", "\xE4\xB8", "aaaaaaaab"};
      std::string unit = units[random() % std::size(units)];
      for (auto n = random() % 80; n > 0; --n) text += unit;
    }
    Regex regex(patterns[static_cast<std::size_t>(round) % patterns.size()]);
    CAPTURE(regex.pattern());
    CAPTURE(text);
    Regex::Scratch scratch;
    for (std::size_t at = 0; at < text.size();) {
      Regex::Scratch fresh;
      auto match = regex.find(text, at, scratch), expected = regex.find(text, at, fresh);
      REQUIRE(match.has_value() == expected.has_value());
      if (!match) break;
      REQUIRE(match->begin == expected->begin);
      REQUIRE(match->end == expected->end);
      at = match->end;
    }
  }
  auto begin = std::chrono::steady_clock::now();
  const std::string text(200'000, 'a');
  for (const char* pattern : {"a+b|a", "(?:aa)+b|a", "(?:a|aa)+b|aaa|a"}) {
    auto splitter = make_splitter({interpreted(pattern)});
    pretoken_lengths(*splitter, text, 1000);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));  // without memoization, an hour
}

TEST_CASE("regex: unsupported syntax is refused by name") {
  for (const auto& refused : std::vector<std::pair<std::string, std::string>>{{"a*", "empty string"},
                                                                              {"a|", "empty string"},
                                                                              {"^a", "a ^"},
                                                                              {"a$", "a $"},
                                                                              {"(a", "( without"},
                                                                              {"a)", ") without"},
                                                                              {"[a", "[ without"},
                                                                              {"(?<=a)b", "(?"},
                                                                              {"(?!ab)c", "lookahead"},
                                                                              {"\\bx", "\\b"},
                                                                              {"\\w+", "\\w"},
                                                                              {"(a)\\1", "\\1"},
                                                                              {"\\p{Han}", "\\p{Han}"},
                                                                              {"a{1,3}+", "after {}"},
                                                                              {"a{3,1}", "a {"},
                                                                              {"a{9999}", "a {"},
                                                                              {"(?:ab)++", "possessive"},
                                                                              {"(?:a?)*b", "can be empty"},
                                                                              {"a**", "repeated"},
                                                                              {"[a&&b]", "&&"},
                                                                              {"[[:alpha:]]", "class within"},
                                                                              {"(?i:\xC3\xA9)", "beyond"},
                                                                              {"(?i:miss)", "\"ss\""},
                                                                              {"\xFF", "UTF-8"},
                                                                              {"(?:a{999}){999}", "too many"},
                                                                              {std::string(5000, '('), "nested"},
                                                                              {"[b-a]", "range"}}) {
    CAPTURE(refused.first);
    CHECK(test::contains(test::error_of([&] { Regex regex(refused.first); }, Exit::bad_data), refused.second));
  }
}

TEST_CASE("split patterns: a megabyte of one character takes linear time") {
  std::vector<SplitStep> steps{SplitGpt2{}};
  for (const SplitRules& rules : all_rules()) steps.emplace_back(rules);
  for (const char* unit : {"a", "A", " ", "\n", "\xE4\xB8\xAD", "\xCC\x81", "7", "/",
                           "\xCC\x81"
                           "A"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    for (const SplitStep& step : steps) {
      auto splitter = make_splitter({step});
      splitter->start(text);
      std::vector<const char*> ends(1000);
      auto begin = std::chrono::steady_clock::now();
      while (splitter->next(ends) > 0) continue;
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));  // quadratic time would take minutes
    }
  }
}
