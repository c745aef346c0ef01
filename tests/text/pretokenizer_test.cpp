// GPT-2's pre-tokens, character classes and lossy UTF-8, compared with other libraries.
#include "text/pretokenizer.h"

#include <doctest/doctest.h>

#include "base/utf8.h"
#include "tests/text/golden.h"
#include "text/unicode_classes.h"

using namespace mtl;

namespace {

std::vector<std::int32_t> pretoken_lengths(std::string_view text) {
  std::vector<std::int32_t> lengths;
  for_each_pretoken(text,
                    [&](std::string_view pretoken) { lengths.push_back(static_cast<std::int32_t>(pretoken.size())); });
  return lengths;
}

}  // namespace

TEST_CASE("unicode classes: every code point equals the golden class") {
  Json golden = Json::read("golden/tokenizer/unicode_classes.json");
  std::vector<CharClass> want(0x110000, CharClass::other);
  auto fill = [&](const char* key, CharClass value) {
    for (const Json& range : golden.at(key).as_array()) {
      for (std::int64_t c = range.as_array()[0].as_int(); c <= range.as_array()[1].as_int(); ++c)
        want[static_cast<std::size_t>(c)] = value;
    }
  };
  fill("L", CharClass::letter);
  fill("N", CharClass::number);
  fill("S", CharClass::space);
  std::uint32_t wrong = 0;
  for (std::uint32_t c = 0; c < 0x110000; ++c) wrong += class_of(c) != want[c];
  CHECK(wrong == 0);
}

TEST_CASE("pretokenizer: pre-tokens equal the golden ones") {
  for (const Json& item : golden_lines("golden/tokenizer/pretokens.jsonl")) {
    CAPTURE(item.at("name").as_string());
    CHECK(pretoken_lengths(item.at("text").as_string()) == ids_of(item.at("gpt2")));
  }
}

TEST_CASE("pretokenizer: batches of one pre-token yield the same pre-tokens") {
  for (const Json& item : golden_lines("golden/tokenizer/pretokens.jsonl")) {
    const std::string& text = item.at("text").as_string();
    std::vector<std::int32_t> lengths;
    std::string_view rest = text;
    while (!rest.empty()) {
      const char* ends[1];
      REQUIRE(split_pretokens(rest, ends) == 1);
      lengths.push_back(static_cast<std::int32_t>(ends[0] - rest.data()));
      rest.remove_prefix(static_cast<std::size_t>(lengths.back()));
    }
    CHECK(lengths == ids_of(item.at("gpt2")));
  }
}

TEST_CASE("pretokenizer: bytes that are not UTF-8 count as other characters") {
  CHECK(pretoken_lengths("ab\xFF\xC3 c") == std::vector<std::int32_t>{2, 2, 2});
  CHECK(pretoken_lengths("").empty());
}

TEST_CASE("utf8: lossy text equals Python's errors=replace, whole and byte by byte") {
  for (const Json& item : golden_lines("golden/tokenizer/gpt2_decode.jsonl")) {
    const std::string& hex = item.at("bytes_hex").as_string();
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    CHECK(decode_lossy(bytes) == item.at("text_lossy").as_string());
    Utf8Stream stream;
    std::string shown;
    for (char byte : bytes) {
      shown += stream.push({&byte, 1});
      CHECK(find_invalid_utf8(shown) == std::string::npos);
    }
    CHECK(shown + stream.finish() == item.at("text_lossy").as_string());
  }
}
