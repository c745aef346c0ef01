// TextExtractor: both parsers return the same texts or the same error.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "base/str.h"
#include "text/json_lines.h"

using namespace mtl;

namespace {

using Parser = TextExtractor::Parser;

/// Reads a line in place, directly followed by `behind`. Returns its texts or its error as one string.
std::string outcome(TextExtractor& extractor, std::string_view line, std::string_view behind) {
  PaddedText text(line);
  text.append(behind);
  try {
    extractor.read_padded(text.view().substr(0, line.size()));
  } catch (const Error& error) {
    return cat("error ", static_cast<int>(error.code()), ": ", error.what());
  }
  std::string out = "texts";
  for (std::string_view text_of_line : extractor.texts(0)) out += cat(" ", text_of_line.size(), ":", text_of_line);
  return out;
}

struct Comparison {
  TextExtractor simdjson_first{{"text"}}, cursor_only{{"text"}, Parser::cursor_only};
  std::int64_t lines = 0, differences = 0;

  void compare(std::string_view line, std::string_view behind) {
    ++lines;
    const std::string want = outcome(cursor_only, line, behind), got = outcome(simdjson_first, line, behind);
    if (got == want || ++differences > 5) return;
    FAIL_CHECK("line: ", std::string(line), "\n  simdjson first: ", got, "\n  cursor only: ", want);
  }
};

std::vector<std::string> lines_of(const std::string& folder, std::string_view ending) {
  std::vector<std::string> lines, files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && ends_with(entry.path().string(), ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    for (std::string& line : split(read_file(file), '\n')) lines.push_back(std::move(line));
  }
  return lines;
}

/// Fragments that Python accepts but simdjson rejects, that both reject, or that are easily misread.
const std::string_view kParts[] = {R"("text": "other", )",
                                   R"("\u0074ext": "escaped key", )",
                                   R"("b": 18446744073709551616, )",
                                   R"("b": -9223372036854775809, )",
                                   R"("b": 123456789012345678901234567890, )",
                                   R"("b": 1e999, )",
                                   R"("b": NaN, )",
                                   R"("b": -Infinity, )",
                                   R"("b": "\ud800", )",
                                   R"("b": "\udfff\ud800", )",
                                   R"("\ud800": 1, )",
                                   R"("text": "\ud800", )",
                                   R"("b": [[[{"text": 1}]]], )",
                                   R"("text": ["x", "y"], )",
                                   R"("text": ["x", 1], )",
                                   R"("text": null, )",
                                   R"("b": 0.1e-7, )",
                                   R"("b": -0, )",
                                   R"("b": 01, )",
                                   R"("b": 1., )",
                                   R"("b": .5, )",
                                   R"("b": +1, )",
                                   R"("b": 1e, )",
                                   R"("b": tru, )",
                                   R"("b": trueq, )",
                                   R"("b": true, )",
                                   R"("b": false, )",
                                   R"("b": null, )",
                                   R"("b": {}, )",
                                   R"("": "", )",
                                   R"("b": [], )",
                                   R"("b": "\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\", )",
                                   R"("b": "\x", )",
                                   R"("b": "\u12g4", )",
                                   R"("b": "\u0000", )",
                                   "\\",
                                   "\"",
                                   "\\\"",
                                   "\\\\",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ":",
                                   " ",
                                   "\t",
                                   "\r",
                                   "0",
                                   "9",
                                   "-",
                                   ".",
                                   "e",
                                   "u",
                                   "\\u",
                                   "\\ud83d",
                                   "\\ude00",
                                   "\xEF\xBB\xBF",
                                   "\x7F",
                                   "\x1F",
                                   std::string_view("\0", 1),
                                   "\xC3",
                                   "\xC3\xA9",
                                   "\xE2\x82\xAC",
                                   "\xED\xA0\x80",
                                   "\xF0\x9F\x98\x80",
                                   "\xF4\x90\x80\x80",
                                   "\xC0\x80",
                                   "\xFF",
                                   "/*",
                                   "//",
                                   "\xC2\xA0",
                                   "\x0B",
                                   "\x0C",
                                   "'"};

std::string mutate(std::string line, const std::vector<std::string>& seeds, std::mt19937_64& random) {
  for (std::uint64_t left = random() % 4; left > 0; --left) {
    const std::size_t at = random() % (line.size() + 1), length = std::min<std::size_t>(line.size() - at, random() % 8);
    switch (random() % 6) {
      case 0:
        line.erase(at, length);
        break;
      case 1:
        line.insert(at, 1, static_cast<char>(random()));
        break;
      case 2:
        line.insert(at, kParts[random() % std::size(kParts)]);
        break;
      case 3: {  // a part that becomes the object's first member
        const std::size_t brace = line.find('{');
        if (brace != std::string::npos) line.insert(brace + 1, kParts[random() % std::size(kParts)]);
        break;
      }
      case 4:
        line.insert(at, line.substr(at, length));
        break;
      default: {
        const std::string& other = seeds[random() % seeds.size()];
        line = line.substr(0, at) + other.substr(random() % (other.size() + 1));
      }
    }
  }
  return line;
}

std::string nested(std::size_t depth, char open, char close) {
  const std::string before = open == '{' ? R"({"a":)" : "[";
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += before;
  return out + "1" + std::string(depth, close);
}

}  // namespace

TEST_CASE("json parsers: they agree on golden files and fuzz corpora") {
  Comparison both;
  for (const char* folder : {"golden", "fuzz/corpus/json", "fuzz/corpus/json_lines"}) {
    for (const std::string& line : lines_of(folder, folder == std::string_view("golden") ? ".jsonl" : "")) {
      both.compare(line, "\n");
      both.compare(line, "}\n");
    }
  }
  CHECK(both.lines > 1000);
  CHECK(both.simdjson_first.dom_lines() > both.lines / 4);
  CHECK(both.cursor_only.dom_lines() == 0);
}

TEST_CASE("json parsers: they agree on nesting, long lines and bytes after a line") {
  Comparison both;
  for (std::size_t depth : {1, 500, 997, 998, 999, 1000, 1001, 5000}) {
    for (const std::string& value : {nested(depth, '[', ']'), nested(depth, '{', '}')})
      both.compare(R"({"b": )" + value + R"(, "text": "x"})", "\n");
  }
  const std::size_t around = TextExtractor::kDomBytes - std::string_view(R"({"text": ""})").size();
  for (std::size_t length : {around - 1, around, around + 1, 3 * around}) {
    const std::int64_t before = both.simdjson_first.dom_lines();
    both.compare(R"({"text": ")" + std::string(length, 'x') + "\"}", "\n");
    CHECK(both.simdjson_first.dom_lines() - before == (length <= around ? 1 : 0));
  }
  for (std::string_view line :
       {R"({"text": "x"})", R"({"text": "x")", R"({"text": "x)", R"({"text": "x", "b": 1)", R"({"text": "x", "b": tru)",
        R"({"text": "x", "b": {})", R"({"text": "x", "b": [1])", R"({"text": "x\)", R"({"text": "x\u00e)", "{", ""}) {
    for (std::string_view behind : {"\n", "}", "\"}", "e}", "1}", ",", ",\"b\":1}", "]}", "}}}}", "9\"}", "\\\"}", "{"})
      both.compare(line, behind);
  }
  CHECK(both.simdjson_first.dom_lines() > 20);
}

TEST_CASE("json parsers: lines that simdjson refuses are read by the other parser") {
  Comparison both;
  for (const char* part : {R"("b": 18446744073709551616)", R"("b": 1e999)", R"("b": NaN)", R"("b": "\ud800")",
                           R"("\udc00\ud800": 1)", R"("b": [-Infinity])"}) {
    both.compare(cat("{", part, R"(, "text": "x"})"), "\n");
    CHECK(both.simdjson_first.texts(0) == std::vector<std::string_view>{"x"});
  }
  CHECK(both.simdjson_first.dom_lines() == 0);
}

// tests/cli/json_lines_long.sh requests many more, with another seed.
TEST_CASE("json parsers: they agree on mutated lines") {
  const char* requested = std::getenv("MTL_TEST_JSON_LINES");
  const std::int64_t count = requested == nullptr ? 100000 : std::atoll(requested);
  std::vector<std::string> seeds = lines_of("fuzz/corpus/json_lines", "");
  for (const std::string& line : lines_of("golden", ".jsonl")) {
    if (line.find("\"text\"") != std::string::npos && line.size() < 400) seeds.push_back(line);
  }
  REQUIRE(seeds.size() > 50);
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  Comparison both;
  const std::string_view behind[] = {"\n", "}\n", "\"}", "0", "]", ",\"text\":\"\"}"};
  while (both.lines < count && both.differences == 0)
    both.compare(mutate(seeds[random() % seeds.size()], seeds, random), behind[random() % std::size(behind)]);
  CHECK(both.lines == count);
  CHECK(both.simdjson_first.dom_lines() > count / 10);
  CHECK(both.simdjson_first.dom_lines() < count * 9 / 10);
}
