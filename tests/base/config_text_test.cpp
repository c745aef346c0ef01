// Configuration files: lines to names and words, and words to what reads back as the same words.
#include "base/config_text.h"

#include <doctest/doctest.h>

#include "base/str.h"

using namespace mtl;

namespace {

/// "NUMBER NAME =" and each word in angle brackets, or the error, one line of the file a line.
std::string parsed(std::string_view text) {
  std::string out;
  for (const ConfigLine& line : parse_config(text)) {
    out += cat(line.number, " ", line.name, line.has_equals ? " =" : "");
    for (const std::string& word : line.words) out += cat(" <", word, ">");
    out += line.error.empty() ? "\n" : cat(" error: ", line.error, "\n");
  }
  return out;
}

}  // namespace

TEST_CASE("config text: names, values and words") {
  CHECK(parsed("") == "");
  CHECK(parsed("lr = 0.1") == "1 lr = <0.1>\n");
  CHECK(parsed("\xEF\xBB\xBFlr=0.1\r\n\n  \t\nquiet\n") == "1 lr = <0.1>\n4 quiet\n");
  CHECK(parsed("data =  0.3 a\t0.7   b \n") == "1 data = <0.3> <a> <0.7> <b>\n");
  CHECK(parsed("a=b=c\nsave =\n= 3\nlr 3\n") == "1 a = <b=c>\n2 save =\n3  = <3>\n4 lr <3>\n");
}

TEST_CASE("config text: a comment begins at the start of a line or of a word") {
  CHECK(parsed("# lr = 1\n  # two\nlr = 1 # why\nc = a#b #c\nquiet# on\nsave = #\n") ==
        "3 lr = <1>\n4 c = <a#b>\n5 quiet\n6 save =\n");
}

TEST_CASE("config text: words in quotes are JSON strings") {
  CHECK(parsed(R"(a = "x y" "" "\"\\" "#" "\u00e9")") == "1 a = <x y> <> <\"\\> <#> <\xC3\xA9>\n");
  CHECK(parsed("a = \"b\"c d\"e\"") == "1 a = <b> <c> <d\"e\">\n");
  CHECK(parsed("a = b \"c\nd = \"\\x\"\ne = f\n").find("1 a = error: ") == 0);
  CHECK(parsed("a = b \"c\nd = \"\\x\"\ne = f\n").find("\n2 d = error: ") != std::string::npos);
  CHECK(parsed("a = b \"c\nd = \"\\x\"\ne = f\n").find("\n3 e = <f>\n") != std::string::npos);
}

TEST_CASE("config text: words are written as they are read back") {
  CHECK(config_value({}) == "");
  CHECK(config_value({"0.3", "a/b", "c#d", "=", "[x,y]"}) == "0.3 a/b c#d = [x,y]");
  CHECK(config_value({"", "a b", "#c"}) == "\"\" \"a b\" \"#c\"");
  const std::vector<std::string> words{"",     "#",   " ",    "a\tb",  "a\nb",           "\"", "\\",
                                       "\v\f", "\"a", "a\\b", "\x1f-", "\xE2\x80\xA6 x", "=",  "last"};
  const std::vector<ConfigLine> lines = parse_config(cat("name = ", config_value(words), "  # comment"));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].words == words);
}
