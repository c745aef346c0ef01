// Configuration files: lines parse into names and words, and written words parse back unchanged.
#include "base/config_text.h"

#include <doctest/doctest.h>

#include "base/str.h"

using namespace mtl;

namespace {

/// Returns one line per input line: "NUMBER NAME =" and each word in angle brackets, or the error.
std::string parsed(std::string_view text) {
  std::string out;
  std::size_t number = 0;
  for (const std::string& raw : split(text, '\n')) {
    ++number;
    const std::optional<ConfigLine> line = parse_config_line(raw);
    if (!line) continue;
    out += cat(number, " ", line->name, line->has_equals ? " =" : "");
    for (const std::string& word : line->words) out += cat(" <", word, ">");
    out += line->error.empty() ? "\n" : cat(" error: ", line->error, "\n");
  }
  return out;
}

}  // namespace

TEST_CASE("config text: a line has a name and words; another form is an error with the remedy") {
  CHECK(parsed("") == "");
  CHECK(parsed("lr = 0.1") == "1 lr = <0.1>\n");
  CHECK(parsed("\xEF\xBB\xBFlr=0.1\r\n\n  \t\nquiet\n") == "1 lr = <0.1>\n4 quiet\n");
  CHECK(parsed("data =  0.3 a\t0.7   b \n") == "1 data = <0.3> <a> <0.7> <b>\n");
  CHECK(parsed("a=b=c\nsave =\n= 3\n") == "1 a = <b=c>\n2 save =\n3  = <3>\n");
  CHECK(parsed("lr 3 4\n") == "1 lr error: write lr = 3 4\n");
}

TEST_CASE("config text: a value with a NUL byte, which would end a path, is an error") {
  const std::string expected = "1 save = error: the value has a NUL byte; remove it\n";
  CHECK(parsed(std::string_view("save = x\0y\n", 11)) == expected);
  CHECK(parsed(R"(save = a "x\u0000y")") == expected);
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

TEST_CASE("config text: written words read back unchanged") {
  const auto value = [](const std::vector<std::string>& words) {
    const std::string line = config_line("name", words, "why");
    return std::string(trim(line.substr(0, line.rfind(" # why\n"))));
  };
  CHECK(value({}) == "name =");
  CHECK(value({"0.3", "a/b", "c#d", "=", "[x,y]"}) == "name = 0.3 a/b c#d = [x,y]");
  CHECK(value({"", "a b", "#c"}) == "name = \"\" \"a b\" \"#c\"");
  const std::vector<std::string> words{"",     "#",   " ",    "a\tb",  "a\nb",           "\"", "\\",
                                       "\v\f", "\"a", "a\\b", "\x1f-", "\xE2\x80\xA6 x", "=",  "last"};
  const auto line = parse_config_line(config_line("name", words, "comment"));
  REQUIRE(line.has_value());
  CHECK(line->words == words);
}

TEST_CASE("config text: comments share one column, and an option without a value is a comment") {
  CHECK(config_line("lr", {{"0.1"}}, "default") == "lr = 0.1" + std::string(40, ' ') + " # default\n");
  const std::string unset = config_line("load", std::nullopt, "default");
  CHECK(unset == "# load = " + std::string(39, ' ') + " # default\n");
  CHECK_FALSE(parse_config_line(unset).has_value());
  const std::string word(60, 'x');
  CHECK(config_line("lr", {{word}}, "default") == "lr = " + word + "  # default\n");
}
