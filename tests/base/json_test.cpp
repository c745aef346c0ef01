// JSON behaves like Python's json module, even where the module deviates from the standard.
#include "base/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/json_cursor.h"
#include "tests/error_of.h"

using namespace mtl;
using mtl::test::error_of;

TEST_CASE("json: values and order survive a round trip") {
  std::string text = R"({"b": [1, -2.5, true, null, "x\"y"], "a": {"k": 1e-05}})";
  CHECK(Json::parse(text).dump() == text);
}

TEST_CASE("json: an unsigned number beyond 63 bits is a double, as if it were parsed") {
  constexpr std::uint64_t kLargest = INT64_MAX;
  CHECK(Json(kLargest).dump() == "9223372036854775807");
  for (const std::uint64_t value : {kLargest + 1, UINT64_MAX}) {
    CAPTURE(value);
    CHECK_FALSE(Json(value).is_int());
    CHECK(Json(value).dump() == Json::parse(std::to_string(value)).dump());
    CHECK(Json(value).as_number() == static_cast<double>(value));
  }
}

TEST_CASE("json: writes doubles as Python does") {
  for (const char* text : {"0.0", "-0.0", "0.1", "0.0001", "0.00012", "1e-05", "1.5e-05", "10000.0", "100000.0",
                           "1000000.0", "-500000.0", "1000000000000000.0", "9007199254740992.0", "9999999999999998.0",
                           "1e+16", "1.2345678901234568e+17", "1e+22", "5e-324", "1.7976931348623157e+308"})
    CHECK(Json::parse(text).dump() == text);
}

TEST_CASE("json: writes invalid UTF-8 as U+FFFD") {
  // Invalid bytes are grouped as in Python's decode("utf-8", "replace").
  const std::string bytes = "a\xFF\xC3\xA9\xED\xA0\x80\xE2\x82";
  const std::string shown = "\"a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"";
  CHECK(Json(bytes).dump() == shown);
  CHECK(Json::object({{bytes, 1}}).dump() == "{" + shown + ": 1}");
  CHECK(Json::parse(Json(bytes).dump()).dump() == shown);
}

TEST_CASE("json: accepts what Python accepts") {
  CHECK(std::isnan(Json::parse("NaN").as_number()));
  CHECK(Json::parse("-Infinity").as_number() < 0);
  CHECK(Json::parse("1000000000000000019884624838656").as_number() == doctest::Approx(1e30));
  CHECK(Json::parse(R"({"a": 1, "a": 2})").at("a").as_int() == 2);
  CHECK(Json::parse(R"("\ud83d\ude00")").as_string() == "\xF0\x9F\x98\x80");
  CHECK(has_lone_surrogate(Json::parse(R"("a\ud800b")").as_string()));
  CHECK_FALSE(has_lone_surrogate(Json::parse(R"("\ud83d\ude00 \ud7ff")").as_string()));
  CHECK(Json::parse(" \t\r\n[ ] ").as_array().empty());
}

TEST_CASE("json: refuses what Python refuses") {
  for (const char* bad : {"",
                          "{",
                          "[1,]",
                          "{\"a\":1,}",
                          "01",
                          "1.",
                          "1e",
                          "+1",
                          "'a'",
                          "\"a",
                          "\"\t\"",
                          "\"\\x\"",
                          "\"\\u12\"",
                          "{a:1}",
                          "[1 2]",
                          "nul",
                          "true false",
                          "\"\xff\"",
                          "\"\xed\xa0\x80\"",
                          "\xef\xbb\xbf[]",
                          "-"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(Json::parse(bad), Error);
  }
  CHECK_THROWS_WITH_AS(Json::parse("\xef\xbb\xbf{}"), doctest::Contains("byte order mark"), Error);
  CHECK_THROWS_WITH_AS(Json::parse(std::string("\xff\xfe{\0}\0", 6)), doctest::Contains("iconv -f UTF-16"), Error);
  CHECK_THROWS_WITH_AS(Json::parse(std::string("{\0\"\0a\0", 6)), doctest::Contains("iconv -f UTF-16LE"), Error);
  CHECK_THROWS_AS(Json::parse(std::string(1001, '[') + std::string(1001, ']')), Error);
  CHECK_NOTHROW(Json::parse(std::string(1000, '[') + std::string(1000, ']')));
}

TEST_CASE("json: ASCII output escapes control characters and everything beyond ASCII") {
  std::string out;
  append_json_string(out, "a\x01\n\xC3\xA9\xF0\x9F\x98\x80", true);
  CHECK(out == "\"a\\u0001\\n\\u00e9\\ud83d\\ude00\"");
}

TEST_CASE("json: reports a value of another kind with its key") {
  const Json json = Json::parse(R"({"size": "x", "name": 3, "on": 1, "rate": true, "none": null})");
  CHECK(error_of([&] { json.int_or("size", 1); }) == "size: expected a whole number");
  CHECK(error_of([&] { json.string_or("name", ""); }) == "name: expected a string");
  CHECK(error_of([&] { json.bool_or("on", false); }) == "on: expected true or false");
  CHECK(error_of([&] { json.number_or("rate", 1); }) == "rate: expected a number");
  CHECK(json.int_or("none", 7) == 7);
  CHECK(json.int_or("absent", 7) == 7);
}

TEST_CASE("json: set() changes the value that find() returns, even if the key occurs several times") {
  Json json = Json::parse(R"({"size": 1, "name": "x", "size": 2})");
  json.set("size", 3);
  CHECK(json.at("size").as_int() == 3);
  CHECK(Json::parse(json.dump()).at("size").as_int() == 3);
}

TEST_CASE("cursor: plain items equal the results of key() and number()") {
  const std::vector<std::string> keys{
      "a",        "Zz09",         "\\u0120", "\\u00e9",          "\\u0041", "\\u0000", "\\u07FF", "\xC3\xA9",
      "\xC4\xA0", "\xE4\xB8\xAD", "\\u0800", "\\uD800",          "\\n",     "\\\"",    "\\",      "\x01",
      "\xC3",     "\xC0\x80",     "\\u12g4", "\xF0\x9F\x98\x80", " "};
  const std::vector<std::string> colons{":", ": ", " :", ":  "};
  const std::vector<std::string> values{"0",   "7",    "50256", "123456789", "1234567890", "007", "-1", "1.5", "1e3",
                                        "1E3", "null", "\"1\"", "",          "x",          "1 ",  "1x", "NaN"};
  std::mt19937 random(9);
  auto one_of = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  int plain = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = "{\"";
    const int parts = round % 10 == 0 ? 130 : static_cast<int>(random() % 4);
    for (int n = 0; n < parts; ++n) text += round % 3 == 0 ? one_of(keys) : keys[random() % 10];
    text += cat("\"", one_of(colons), one_of(values), round % 2 == 0 ? ", \"next\": 2}" : "}");
    if (round % 7 != 0) text.append(1000, ' ');  // the fast path does not apply near the end
    CAPTURE(text);
    JsonCursor cursor(text), reference(text);
    cursor.enter('{');
    reference.enter('{');
    const bool has_item = cursor.next_item('}');
    CHECK(reference.next_item('}') == has_item);
    const std::size_t before = cursor.offset();
    std::string_view key;
    const std::optional<std::int64_t> value = cursor.plain_item(key);
    if (!value) {
      CHECK(cursor.offset() == before);
      continue;
    }
    ++plain;
    CHECK(round % 7 != 0);
    REQUIRE(std::string(reference.key()) == key);
    REQUIRE(json_integer(reference.number()) == value);
    REQUIRE(reference.offset() == cursor.offset());
  }
  CHECK(plain > 1000);
}
