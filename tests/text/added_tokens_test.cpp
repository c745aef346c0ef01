// Added tokens in text, and Unicode normalization form C.
#include "text/added_tokens.h"

#include <doctest/doctest.h>

#include <chrono>

#include "base/error.h"
#include "base/str.h"
#include "tests/text/random_text.h"
#include "text/normalizer.h"

using namespace mtl;

namespace {

/// Splits a text at added tokens; returns the text between them and token ids as "text|#id|text".
std::string cut(const TokenFinder& finder, const std::string& text) {
  std::vector<std::string> out;
  finder.cut(
      text, [&](std::string_view part) { out.emplace_back(part); },
      [&](std::int32_t id) { out.push_back(cat("#", id)); });
  return join(out, "|");
}

}  // namespace

TEST_CASE("added tokens: the leftmost match wins, then the longest, with the adjacent whitespace") {
  TokenFinder finder({{.content = "<a>", .id = 1},
                      {.content = "<a>b", .id = 2},
                      {.content = "<l>", .id = 3, .lstrip = true},
                      {.content = "<r>", .id = 4, .rstrip = true},
                      {.content = "cat", .id = 5, .single_word = true},
                      {.content = "  ", .id = 6}});
  CHECK(cut(finder, "x<a>bc<a>") == "x|#2|c|#1");
  CHECK(cut(finder, "<a<a>") == "<a|#1");
  CHECK(cut(finder, "x \xE3\x80\x80<l> <r> \n y") == "x|#3| |#4|y");
  CHECK(cut(finder, "a cat, concat cat_ cats cat\xC3\xA9 cat") == "a |#5|, concat cat_ cats cat\xC3\xA9 |#5");
  CHECK(cut(finder, "a     b") == "a|#6|#6| b");
  CHECK(cut(finder, "<r> <l>") == "#4|#3");
  CHECK(cut(finder, "") == "");
  CHECK(cut(TokenFinder(), "abc") == "abc");
  CHECK(TokenFinder().empty());
}

TEST_CASE(
    "added tokens: a token in whitespace already taken is dropped, or refused where Hugging Face's library aborts") {
  TokenFinder both(
      {{.content = "<r>", .id = 1, .rstrip = true}, {.content = " ", .id = 2, .lstrip = true, .rstrip = true}});
  CHECK(cut(both, "<r>   a") == "#1|a");  // <r> takes all blanks
  TokenFinder left({{.content = "<r>", .id = 1, .rstrip = true}, {.content = " ", .id = 2, .lstrip = true}});
  CHECK(cut(left, "<r> a") == "#1|a");
  CHECK_THROWS_WITH_AS(cut(left, "<r>  a"), doctest::Contains("library aborts"), Error);
}

TEST_CASE("added tokens: runs of whitespace take linear time") {
  TokenFinder finder({{.content = " ", .id = 1, .lstrip = true, .rstrip = true}, {.content = "\n", .id = 2}});
  const std::string text = cat("a", std::string(300'000, ' '), "\n  b  c");
  auto begin = std::chrono::steady_clock::now();
  std::size_t tokens = 0, bytes = 0;
  finder.cut(
      text, [&](std::string_view part) { bytes += part.size(); }, [&](std::int32_t) { ++tokens; });
  // Hugging Face's library drops a token if an earlier match has consumed its text. Four matches remain: " ", the "\n"
  // with the blank after it, b's blanks, and the " " before c.
  CHECK(tokens == 4);
  CHECK(bytes == 3);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));  // quadratic time would take minutes
}

TEST_CASE("NFC: composes, reorders, and leaves other text unchanged") {
  NfcNormalizer nfc;
  std::string buffer;
  auto normal = [&](const std::string& text) { return std::string(nfc.normalize(text, buffer)); };
  CHECK(normal("plain \xC3\xA9 text") == "plain \xC3\xA9 text");
  CHECK(normal("e\xCC\x81") == "\xC3\xA9");                                 // e and an acute accent
  CHECK(normal("xe\xCC\x81y o\xCC\x88\xCC\x84") == "x\xC3\xA9y \xC8\xAB");  // two marks in a row
  CHECK(normal("a\xCC\x81\xCC\xA3") == "\xE1\xBA\xA1\xCC\x81");             // the mark below is ordered first
  CHECK(normal("\xE2\x84\xAB \xE2\x84\xA6") == "\xC3\x85 \xCE\xA9");        // Angstrom and Ohm become letters
  CHECK(normal("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB") == "\xED\x95\x9C");  // Korean: lead, vowel, trail
  CHECK(normal("\xEA\xB0\x80\xE1\x86\xA8") == "\xEA\xB0\x81");              // a syllable and its trail
  CHECK(normal("\xE0\xA5\x98") == "\xE0\xA4\x95\xE0\xA4\xBC");              // a composition exclusion
  CHECK(normal("e\xCC\x81\xFF"
               "e\xCC") ==
        "\xC3\xA9\xFF"
        "e\xCC");  // invalid bytes are kept
  CHECK(normal("\xFF\xCC\x81") == "\xFF\xCC\x81");
  CHECK(normal("\xF0\x90\x97\x92\xCC\x87") == "\xF0\x90\x97\x92\xCC\x87");  // composes in Unicode 16, not in 9
  std::mt19937 random(8);
  for (int round = 0; round < 3000; ++round) {
    std::string once = normal(random_text(random));
    REQUIRE(normal(once) == once);
  }
  std::string marks = "a";
  for (int i = 0; i < 200000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";  // quadratic time would be noticeable
  CHECK(normal(marks).size() == marks.size() + 3 - 1 - 2);  // U+1EA1 replaces the a and one dot below
}
