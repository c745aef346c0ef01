// split_sentences: tests each rule, and invariants that hold for any text.
#include "text/sentences.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "base/str.h"

using namespace mtl;

namespace {

/// Returns a text's sentences, joined with |.
std::string split_text(const std::string& text, BetweenSentences between = BetweenSentences::drop) {
  std::vector<std::string_view> sentences;
  split_sentences(text, between, sentences);
  std::vector<std::string> parts(sentences.begin(), sentences.end());
  return join(parts, "|");
}

}  // namespace

TEST_CASE("sentences: end at . ? ! and their closing quotes and brackets, before whitespace") {
  CHECK(split_text("") == "");
  CHECK(split_text(" \n ") == "");
  CHECK(split_text("No end") == "No end");
  CHECK(split_text("One. Two? Three! Four") == "One.|Two?|Three!|Four");
  CHECK(split_text("  One.\n\tTwo. \n") == "  One.|Two.");
  CHECK(split_text("He left. she stayed.") == "He left.|she stayed.");
  CHECK(split_text("Really?! Yes.") == "Really?!|Yes.");
  CHECK(split_text("(He left.) \"She stayed.\" 'So.' Then.") == "(He left.)|\"She stayed.\"|'So.'|Then.");
  CHECK(split_text("\xE2\x80\x9CHe left.\xE2\x80\x9D She stayed.") == "\xE2\x80\x9CHe left.\xE2\x80\x9D|She stayed.");
  CHECK(split_text("\"Why?\" she asked. \"Why?\" She left.") == "\"Why?\" she asked.|\"Why?\"|She left.");
  CHECK(split_text("See www.example.com, 3.14 or a.b.c. Then go.") == "See www.example.com, 3.14 or a.b.c.|Then go.");
  CHECK(split_text("One.\xC2\xA0Two.\xE3\x80\x80Three.\xC2\xA0") == "One.|Two.|Three.");
  CHECK(split_text("tokenized . As in WikiText .") == "tokenized .|As in WikiText .");
  CHECK(split_text("Line\nbreaks. Are\nblanks.") == "Line\nbreaks.|Are\nblanks.");
}

TEST_CASE("sentences: the full stop of a title, a reference or e.g. does not end one") {
  CHECK(split_text("Mr. Fox and Dr. Hare met St. John.") == "Mr. Fox and Dr. Hare met St. John.");
  CHECK(split_text("Fruit, e.g. Apples, i.e. food.") == "Fruit, e.g. Apples, i.e. food.");
  CHECK(split_text("(cf. Table 2)") == "(cf. Table 2)");
  CHECK(split_text("Fig. 2 and No. 5, pp. 3 to 5. No. Never.") == "Fig. 2 and No. 5, pp. 3 to 5.|No.|Never.");
}

TEST_CASE("sentences: abbreviations and initials end a sentence only before a likely beginning of the next") {
  CHECK(split_text("Acme Inc. bought Bolt Corp. The price rose.") == "Acme Inc. bought Bolt Corp.|The price rose.");
  CHECK(split_text("At 5 p.m. on Jan. 5 in the U.S. Senate.") == "At 5 p.m. on Jan. 5 in the U.S. Senate.");
  CHECK(split_text("He came at 5 p.m. She left the U.S. \"But why?\"") ==
        "He came at 5 p.m.|She left the U.S.|\"But why?\"");
  CHECK(split_text("J. R. R. Tolkien and J.K. Rowling. They write.") ==
        "J. R. R. Tolkien and J.K. Rowling.|They write.");
  CHECK(split_text("at 5 p.m.\n\nTolkien") == "at 5 p.m.|Tolkien");
}

TEST_CASE("sentences: several full stops end one only before a capital; a number may end one, a list number does not") {
  CHECK(split_text("Wait... what? Wait... Tom came.") == "Wait... what?|Wait...|Tom came.");
  CHECK(split_text("So . . . what. Now.") == "So . . . what.|Now.");
  CHECK(split_text("1. First. 2. Second.") == "1. First.|2. Second.");
  CHECK(split_text("It was 1999. Then came 2000.") == "It was 1999.|Then came 2000.");
  CHECK(split_text("On the 3. of May.") == "On the 3. of May.");
}

TEST_CASE("sentences: keep leaves the whitespace with the preceding sentence") {
  CHECK(split_text("One.\n\nTwo. \n", BetweenSentences::keep) == "One.\n\n|Two.");
  CHECK(split_text(" \"One.\"  Two", BetweenSentences::keep) == " \"One.\"  |Two");
}

TEST_CASE("sentences: numbers after many blanks take linear time") {
  std::string text(200'000, ' ');
  for (int i = 0; i < 50'000; ++i) text += "1. a ";
  auto begin = std::chrono::steady_clock::now();
  std::vector<std::string_view> sentences;
  split_sentences(text, BetweenSentences::drop, sentences);
  CHECK(sentences.size() == 1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));  // quadratic time would take a minute
  CHECK(split_text("  \n 1. First. 2. Second.") == "  \n 1. First.|2. Second.");
}

TEST_CASE("sentences: any bytes yield sentences in order, and keep loses nothing between them") {
  std::mt19937 random(7);
  const std::string_view parts[] = {
      ".",  "?",   "!",  " ",        "\n",           "\"",           ")",        "(",    "a",        "The",
      "Mr", "U.S", "12", "\xC2\xA0", "\xE2\x80\x9D", "\xE3\x80\x80", "\xC3\xA9", "\xFF", "\xE2\x80", "word"};
  std::vector<std::string_view> sentences, kept;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = random() % 30; n > 0; --n) text += parts[random() % std::size(parts)];
    CAPTURE(text);
    split_sentences(text, BetweenSentences::drop, sentences);
    split_sentences(text, BetweenSentences::keep, kept);
    REQUIRE(sentences.size() == kept.size());
    const char* at = text.data();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      REQUIRE(!sentences[i].empty());
      REQUIRE(kept[i].data() == sentences[i].data());
      REQUIRE(kept[i].substr(0, sentences[i].size()) == sentences[i]);
      REQUIRE(kept[i].data() == at);
      at += kept[i].size();
    }
    REQUIRE(at <= text.data() + text.size());
  }
}
