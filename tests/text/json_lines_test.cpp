// JSON lines: LineReader, TextExtractor and run_ordered.
#include "text/json_lines.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/files.h"
#include "base/ordered.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "text/other_formats.h"

using namespace mtl;

namespace {

std::string message_of(TextExtractor& extractor, std::string_view line) {
  try {
    extractor.read(line);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("lines: every batch size yields the same lines and numbers") {
  const test::ScratchFolder folder;
  const std::string first = folder / "first", second = folder / "second";
  write_file_atomic(first, "one\ntwo\n\nfour with some length\n");
  write_file_atomic(second, "five\nlast without newline");
  std::vector<std::string> want = {first + ":1:0:one",   first + ":2:1:two",
                                   first + ":3:2:",      first + ":4:3:four with some length",
                                   second + ":1:4:five", second + ":2:5:last without newline"};
  for (std::size_t bytes : {1, 2, 3, 5, 7, 16, 1000}) {
    CAPTURE(bytes);
    LineReaderOptions options;
    options.batch_bytes = bytes;
    LineReader reader({first, second}, options);
    std::vector<std::string> got;
    while (auto batch = reader.next()) {
      for_each_line(*batch, [&](std::string_view line, std::int64_t number, std::int64_t index) {
        got.push_back(cat(batch->file, ":", number, ":", index, ":", line));
      });
    }
    CHECK(got == want);
    REQUIRE(reader.stored().size() == 2);
    CHECK(reader.stored()[1].bytes == 25);
  }
}

TEST_CASE("lines: a line that is too long is an error with its line number, for any batch size") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lines";
  for (std::size_t length : {99, 100, 101, 1000}) {
    for (const char* end : {"", "\n", "\nnext\n"}) {
      for (std::size_t bytes : {1, 7, 64, 4096}) {
        CAPTURE(length);
        CAPTURE(bytes);
        write_file_atomic(path, "one\n\n" + std::string(length, 'x') + end);
        LineReaderOptions options;
        options.batch_bytes = bytes;
        options.line_bytes = 100;
        LineReader reader({path}, options);
        auto read = [&] {
          while (reader.next()) {
          }
        };
        if (length <= 100) {
          read();
        } else {
          CHECK_THROWS_WITH_AS(read(), doctest::Contains((path + ":3: the line is longer than 100 B").c_str()), Error);
        }
      }
    }
  }
}

TEST_CASE("lines: a file without newlines that is too long is named by its beginning") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lines";
  const auto message = [&](const std::string& content) {
    write_file_atomic(path, content);
    return test::error_of([&] { LineReader({path}, {.line_bytes = 100}).next(); }, Exit::bad_data);
  };
  std::string objects;
  for (int i = 0; i < 20; ++i) objects += cat("{\"text\": \"caf\xC3\xA9 ", i, "\"},");
  CHECK(test::contains(message("[" + objects + "{}]"), "jq -c '.[]'"));
  std::replace(objects.begin(), objects.end(), ',', '\r');
  CHECK(test::contains(message(objects), "CR alone"));
  CHECK(test::contains(message("{\"text\": \"" + std::string(200, 'x') + "\"}"), "several lines"));
}

TEST_CASE("texts: a key holds a string or a list of strings; the last of duplicate keys applies") {
  TextExtractor extractor({"a", "b"});
  extractor.read(R"( {"b": ["x", "", "y\n"], "c": {"a": 5}, "a": "\u00e9\ud83d\ude00"} )");
  CHECK(extractor.texts(0) == std::vector<std::string_view>{"\xC3\xA9\xF0\x9F\x98\x80"});
  CHECK(extractor.texts(1) == std::vector<std::string_view>{"x", "", "y\n"});
  extractor.read(R"({"a": 5, "b": "1", "b": [], "\u0061": "last"})");
  CHECK(extractor.texts(0) == std::vector<std::string_view>{"last"});
  CHECK(extractor.texts(1).empty());
}

TEST_CASE("texts: the error for a bad line has its reason and column") {
  TextExtractor extractor({"a"});
  CHECK(message_of(extractor, "") == "the line is blank (column 1)");
  CHECK(message_of(extractor, " \r") == "the line is blank (column 1)");
  CHECK(message_of(extractor, "\xEF\xBB\xBF{}").find("a byte order mark") != std::string::npos);
  CHECK(message_of(extractor, "5") == "the line is a JSON number, not an object {...}");
  CHECK(message_of(extractor, R"({"b": "a"})") == "the line has no key \"a\"; choose \"b\" with --json-keys");
  CHECK(message_of(extractor, "{}") == "the line has no key \"a\", and no other whose value is a string");
  CHECK(message_of(extractor, R"({"a": 5})") ==
        "the value of \"a\" is neither a string nor a list of strings (column 7)");
  CHECK(message_of(extractor, R"({"a": ["x", ["y"]]})") ==
        "the value of \"a\" is a list with values other than strings (column 7)");
  CHECK(message_of(extractor, R"({"a": "\udc00"})") ==
        "the value of \"a\" contains a lone surrogate, which is not Unicode text (column 7)");
  CHECK(message_of(extractor, R"({"a": "x",})").find("(column 11)") != std::string::npos);
  CHECK(message_of(extractor, R"({"a": "x", "b": 01})").find("(column") != std::string::npos);
  CHECK(message_of(extractor, "{\"a\": \"\xC3\"}").find("invalid UTF-8 (column 8)") != std::string::npos);
  CHECK(message_of(extractor, R"({"a": "x", "b": "\ud800", "c": NaN})") == "");
}

TEST_CASE("texts: the error for a bad line says what the line or the file seems to be, and what to do") {
  TextExtractor extractor({"text"});
  const auto message = [&](std::string_view line, std::int64_t number) {
    return test::error_of([&] { extractor.read(line, {number}); }, Exit::bad_data);
  };
  struct Case {
    const char *line, *what, *remedy;
  };
  const Case first_lines[] = {
      {"[", "array", "jq -c '.[]'"},
      {R"([{"text": "a"}, {"text": "b"}])", "array", "jq -c '.[]'"},
      {"{", "pretty-printed", "jq -c ."},
      {R"({"text": "a",)", "pretty-printed", "jq -c ."},
      {R"({"1": {"text": "a"}, "2": {"text": "b"}})", "by name", "jq -c '.[]'"},
      {R"({"data": [{"text": "a"}]})", "list \"data\"", "jq -c '.data[]'"},
      {R"({"id": 1, "doc": {"text": "a"}})", "one level down", "jq -c .doc "},
      {R"({"text": {"0": "a", "1": "b"}})", "pandas", "lines=True"},
      {"{\"text\": \"a\"}\r{\"text\": \"b\"}\r", "CR alone", "tr "},
      {R"({"text": "a"}{"text": "b"})", "more than one object", "jq -c ."},
      {R"({"text": "a"},)", "comma", "sed 's/,\\r*$//'"},
      {R"({"text": "a"}, {"text": "b"},)", "commas", "sed 's/,\\r*$//; s/.*/[&]/' FILE | jq -c '.[]'"},
      {R"(["a", "b"])", "array of strings", "{\"text\": .}"},
      {R"({'text': 'a'})", "Python", "json.dumps"},
      {R"({"text": 'a'})", "Python", "json.dumps"},
      {R"({"text": "a", "label": None})", "Python", "json.dumps"},
      {"\x1E{\"text\": \"a\"}", "record separator", "jq --seq"},
      {"<!DOCTYPE html>", "HTML", "downloaded"},
      {"id,text", "CSV", "read_csv"},
      {"text\tlabel", "TSV", "read_csv"},
      {"It was a dark and stormy night, and the rain fell.", "plain text", "jq -R"},
      {"{\"text\": \"caf\xE9\"}", "UTF-8", "iconv -f ISO-8859-1"},
      {"\xEF\xBB\xBF{\"text\": \"a\"}", "byte order mark", "sed "},
  };
  for (const auto& [line, what, remedy] : first_lines) {
    CAPTURE(line);
    CHECK(test::contains(message(line, 1), what));
    CHECK(test::contains(message(line, 1), remedy));
  }
  CHECK(test::contains(message(std::string_view("\xFF\0\xFF", 3), 1), "binary"));
  CHECK(test::contains(message("\x8B\x03\xED", 1), "binary"));
  // A line further down says nothing about the kind of file.
  for (const char* line : {"id,text", "It was a dark night.", "{", "[1] A reference."}) {
    CAPTURE(line);
    const std::string later = message(line, 2);
    CHECK(test::contains(later, "column"));
    CHECK_FALSE(test::contains(later, "FILE"));
  }
}

TEST_CASE("texts: a line without the text has a remedy that fits its values and the earlier lines") {
  struct Case {
    bool follows_texts;
    const char* line;
    std::string message;
  };
  const std::string parts = R"(if type == "array" then map(.text? // "") | join("") else . end)";  // of a chat message
  // A name that means something to a shell or to jq is quoted for both.
  const Case cases[] = {
      {false, R"({"id": 7, "title": "a", "tags": ["b"], "x": "y"})",
       R"(the line has no key "text"; choose one of "title", "x" with --json-keys)"},
      {false, R"({"id": 7, "tokens": [1, 2]})", R"(the line has no key "text", and no other whose value is a string)"},
      {true, R"({"title": "a"})",
       R"(the line has no key "text", but earlier lines have it; drop the lines without it: )"
       R"(jq -c 'select(.text)' FILE | ... --input -)"},
      {false, R"({"text": null, "title": "a"})",
       R"(the value of "text" is null (column 10); drop the lines in which it is null: )"
       R"(jq -c 'select(.text)' FILE | ... --input -)"},
      {false, R"({"messages": [{"role": "user", "content": "a"}, {"role": "x", "content": "b", "n": 1}]})",
       R"(the line has no key "text"; "messages" is a list of chat messages; join their "content" into one text: )"
       R"(jq -c '{"text": (.messages | map(.content | )" +
           parts + R"() | join("\n"))}' FILE | ... --input -)"},
      {false, R"({"messages": [{"role": "user", "content": [{"text": "a"}]}, {"role": "x", "content": null}]})",
       R"(the line has no key "text"; "messages" is a list of chat messages; join their "content" into one text: )"
       R"(jq -c '{"text": (.messages | map(.content | )" +
           parts + R"() | join("\n"))}' FILE | ... --input -)"},
      {false, R"x({"a $(b) '\" \n\\(c)": [{"from": "human", "value": "a"}], "id": "7"})x",
       R"x(the line has no key "text"; "a $(b) '\" \n\\(c)" is a list of chat messages; join their "value" into one )x"
       R"x(text: jq -c '{"text": (."a $(b) '\''\" \n\\(c)" | map(.value | )x" +
           parts +
           R"x() | join("\n"))}' FILE | ... --input -; )x"
           R"x(or choose "id" with --json-keys)x"},
      {false, R"({"messages": [{"role": "user", "content": ["a"]}]})",
       R"(the line has no key "text", and no other whose value is a string)"},
      {false, R"({"messages": []})", R"(the line has no key "text", and no other whose value is a string)"},
      {false, R"({"text": [{"role": "user", "content": "a"}], "n": 1})",
       R"(the value of "text" is a list with values other than strings (column 10); "text" is a list of chat )"
       R"(messages; join their "content" into one text: )"
       R"(jq -c '{"text": (.text | map(.content | )" +
           parts + R"() | join("\n"))}' FILE | ... --input -)"},
      {false, R"("one two")",
       R"(the line is a JSON string, not an object {...}; put each string into an object: )"
       R"(jq -c '{"text": .}' FILE | ... --input -)"},
      {false, "5", "the line is a JSON number, not an object {...}"},
      {false, "null", "the line is a JSON null, not an object {...}"},
      {false, "[1, 2]", "the line is a JSON array of numbers, not an object {...}"},
      {true, R"("one two")",
       "the line is a JSON string, not an object {...}, as earlier lines are; drop such lines: "
       "jq -c objects FILE | ... --input -"},
      {true, "[5]",
       "the line is a JSON array of numbers, not an object {...}, as earlier lines are; drop such lines: "
       "jq -c objects FILE | ... --input -"},
  };
  TextExtractor extractor({"text"});
  for (const auto& [follows_texts, line, message] : cases)
    CHECK(test::error_of([&] { extractor.read(line, {.follows_texts = follows_texts}); }, Exit::bad_data) == message);

  TextExtractor two({"a b", "c"});
  CHECK(test::contains(test::error_of([&] { two.read("{}", {.number = 2}); }, Exit::bad_data),
                       R"(: jq -c 'select(."a b" and .c)' FILE | ... --input -)"));
  CHECK(test::error_of([&] { two.read(R"({"c": "x"})"); }, Exit::bad_data) ==
        "the line has no key \"a b\", and no other whose value is a string");
  // The line's origin says whether earlier lines had the text, unless a tool skips lines.
  CHECK(LineOrigin{2, ""}.follows_texts);
  CHECK_FALSE(LineOrigin{1, ""}.follows_texts);
}

TEST_CASE("texts: JSON in other layouts is told from plain text without a name") {
  for (const char* text :
       {"[", "[{\"text\": \"a\"}, {\"te", "[\n  {\n    \"text\": \"a\"", "[\"a\", \"b\"]", "[\"a\",\n", "{",
        "\n{\n  \"text\": \"a\"", "{\"text\": \"a\",\n \"id\": 1}", "{\"text\": \"a\"}\r{\"text\": \"b\"}\r",
        "{\"text\": \"a\"},\n{\"text\": \"b\"},\n", "{\"text\": \"a\"} {\"text\": \"b\"}", "{'text': 'a'}\n",
        "{\"text\": \"a\"\n, \"id\": 1}", "{\"text\"\n: \"a\"}", "{\"text\": \"a\"}, {\"text\": \"b\"}\n",
        "{\"text\": None}\n", "\x1E{\"text\": \"a\"}\n"}) {
    CAPTURE(text);
    CHECK(describe_other_json(text, "", "text") != "");
    CHECK_FALSE(looks_like_json_lines(text));
  }
  for (const char* text :
       {"", "[]", "[1] A reference.", "[1, 2]", "[[A link]]", "[\"Yes,\" he said.]", "[\"a\"] is a list.", "{}",
        "{{A template}}", "{\n  int i = 0;\n}", "{\"a\": 1} is JSON.", "{\"a\", \"b\"}", "{'a'}", "{\"a\": \"b",
        "{\"text\": \"a\"}\n{\n", "\"A quotation,\n", "It was a dark night."}) {
    CAPTURE(text);
    CHECK(describe_other_json(text, "", "text") == "");
  }
  CHECK(looks_like_json_lines("{\"text\": \"a\"}\n["));
  CHECK(looks_like_json_lines("\n \r\n{\"text\": \"a\"}\n["));
  CHECK_FALSE(looks_like_json_lines("\nIt was a dark night.\n{\"text\": \"a\"}\n"));
  CHECK(test::contains(describe_other_json("[\"a\", \"b\"]", "", "body"), "{\"body\": .}"));
}

TEST_CASE("ordered work: results are in order, for any number of threads") {
  for (int threads : {1, 2, 7}) {
    int given = 0, taken = 0;
    std::atomic<int> at_work{0}, most{0};
    run_ordered<int>(
        threads, [&]() -> std::optional<int> { return given < 500 ? std::optional(given++) : std::nullopt; },
        [&] {
          return [&](int item) {
            most = std::max(most.load(), ++at_work);
            if (item % 7 == 0) usleep(100);
            --at_work;
            return item * 2;
          };
        },
        [&](int result) { CHECK(result == 2 * taken++); });
    CHECK(taken == 500);
    CHECK(most <= threads);
  }
}

TEST_CASE("ordered work: no thread, and more than 1024, are refused") {
  for (int threads : {0, 1025, 1 << 30}) {
    CHECK_THROWS_AS(run_ordered<int>(
                        threads, []() -> std::optional<int> { return {}; },
                        [] { return [](int item) { return item; }; }, [](int) {}),
                    Error);
  }
}

TEST_CASE("ordered work: the weight of work in flight is limited") {
  std::atomic<int> in_flight{0}, most{0};
  int given = 0;
  run_ordered<int>(
      8,
      [&]() -> std::optional<int> {
        if (given == 300) return {};
        most = std::max(most.load(), in_flight += 10);
        return given++;
      },
      [] { return [](int item) { return item; }; }, [&](int) { in_flight -= 10; }, [](int) { return 10; }, 25);
  CHECK(most <= 30);  // one item may start whenever less than 25 is in flight
}

TEST_CASE("ordered work: an error stops it after the preceding results") {
  for (int stage = 0; stage < 3; ++stage) {
    CAPTURE(stage);
    int given = 0, taken = 0;
    auto run = [&] {
      run_ordered<int>(
          4,
          [&]() -> std::optional<int> {
            if (stage == 0 && given == 50) fail(Exit::io, "no more");
            return given < 1000 ? std::optional(given++) : std::nullopt;
          },
          [&] {
            return [&](int item) {
              if (stage == 1 && item >= 50) fail(Exit::bad_data, "item ", item);
              return item;
            };
          },
          [&](int) {
            if (stage == 2 && taken == 50) fail(Exit::failure, "enough");
            ++taken;
          });
    };
    CHECK_THROWS_AS(run(), Error);
    CHECK(taken == 50);
  }
}
