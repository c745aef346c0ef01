// Options: parsed from words and written back as words, with numeric bounds enforced.
#include "base/setting.h"

#include <doctest/doctest.h>

#include <limits>

using namespace mtl;
using Words = std::vector<std::string>;

TEST_CASE("setting: every kind of variable accepts words and returns them") {
  bool on = false;
  std::int64_t count = 1;
  double rate = 0;
  std::string name;
  std::optional<std::int64_t> seed;
  std::optional<double> clip;
  std::optional<std::string> save;
  Words paths;
  const auto round_trip = [](const Setting& setting, const Words& words) {
    for (const std::string& word : words) CHECK(setting.objection(word) == "");
    setting.store(words);
    return setting.words();
  };
  CHECK(round_trip({&on}, {"true"}) == Words{"true"});
  CHECK(on);
  CHECK(round_trip({&count}, {"1_000"}) == Words{"1000"});
  CHECK(round_trip({&count}, {"010"}) == Words{"10"});
  CHECK(round_trip({&rate}, {".1"}) == Words{"0.1"});
  CHECK(rate == 0.1);
  CHECK(round_trip({&name}, {"a b"}) == Words{"a b"});
  CHECK(Setting{&seed}.words().empty());
  CHECK(round_trip({&seed}, {"-7"}) == Words{"-7"});
  CHECK(round_trip({&clip}, {"1e-1"}) == Words{"0.1"});
  CHECK(round_trip({&save}, {""}) == Words{""});
  CHECK(save == "");
  CHECK(round_trip({&paths}, {"0.3", "", "b c"}) == Words{"0.3", "", "b c"});
  CHECK(round_trip({&paths}, {}).empty());
}

TEST_CASE("setting: its kind follows the type of the variable") {
  std::optional<double> clip;
  Words paths;
  bool on = false;
  CHECK(Setting{&clip}.kind() == "real");
  CHECK(Setting{&clip}.is_number());
  CHECK(Setting{&paths}.kind() == "list");
  CHECK(Setting{&on}.kind() == "switch");
  CHECK_FALSE(Setting{&on}.is_number());
}

TEST_CASE("setting: a word that is not a valid value has an objection") {
  bool on = false;
  std::int64_t count = 1;
  double rate = 0.5;
  std::string style = "linear";
  CHECK(Setting{&on}.objection("maybe") == "is not true or false");
  for (const char* word : {"", "1.5", "x", "99999999999999999999"}) {
    CAPTURE(word);
    CHECK(Setting{&count}.objection(word) == "is not a whole number");
  }
  CHECK(Setting{&rate}.objection("fast") == "is not a number");
  CHECK(Setting{&rate}.objection("nan") == "must be a finite number");
  CHECK(Setting{.variable = &rate, .bounds = {0, 1}}.objection("2") == "must be from 0 to 1");
  CHECK(Setting{.variable = &style, .choices = {"linear", "cosine"}}.objection("cosin") ==
        "is unknown; choose one of linear, cosine");
}

TEST_CASE("setting: an inverted switch sets its variable to the opposite") {
  bool bias = true;
  const Setting setting{.variable = &bias, .is_inverted = true};
  CHECK(setting.text() == "false");
  setting.store({"true"});
  CHECK_FALSE(bias);
  CHECK(setting.text() == "true");
  setting.store({"false"});
  CHECK(bias);
}

TEST_CASE("setting: a default that violates its bounds means no value") {
  std::int64_t length = 0;
  std::string empty;
  std::optional<double> clip;
  CHECK_FALSE(Setting{.variable = &length, .bounds = {1}}.has_value());
  CHECK(Setting{&length}.has_value());
  CHECK_FALSE(Setting{&empty}.has_value());
  CHECK_FALSE(Setting{&clip}.has_value());
}

TEST_CASE("bounds: accept numbers within them") {
  CHECK(Bounds{}.objection(-1e300) == "");
  CHECK(Bounds{1}.objection(1) == "");
  CHECK(Bounds{0, 4096}.objection(4096) == "");
  CHECK(Bounds{.least = 0, .most = 1, .excludes_least = true, .excludes_most = true}.objection(1e-300) == "");
}

TEST_CASE("bounds: refuse numbers outside") {
  CHECK(Bounds{1}.objection(0) == "must be at least 1");
  CHECK(Bounds{-INFINITY, 0.5}.objection(0.51) == "must be at most 0.5");
  CHECK(Bounds{0, 4096}.objection(-1) == "must be from 0 to 4096");
  CHECK(Bounds{0, 4096}.objection(4097) == "must be from 0 to 4096");
  CHECK(Bounds{.least = 0, .most = 1, .excludes_most = true}.objection(1) == "must be at least 0 and below 1");
  CHECK(Bounds{.least = 0, .most = 1, .excludes_least = true}.objection(0) == "must be above 0 and at most 1");
  CHECK(Bounds{1e-9, 1e18}.objection(0) == "must be from 1e-09 to 1e+18");
}

TEST_CASE("bounds: refuse infinite numbers and NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (double number : {nan, infinity, -infinity}) {
    CAPTURE(number);
    CHECK(Bounds{}.objection(number) == "must be a finite number");
    for (const Bounds& bounds : {Bounds{0}, Bounds{-INFINITY, 0}, Bounds{0, 1},
                                 Bounds{.least = 0, .most = 1, .excludes_least = true, .excludes_most = true}})
      CHECK_FALSE(bounds.objection(number).empty());
  }
  CHECK(Bounds{0}.objection(nan) == "must be a finite number");
  CHECK(Bounds{0, 1}.objection(nan) == "must be a finite number");
  CHECK(Bounds{0}.objection(INFINITY) == "must be a finite number");
}

TEST_CASE("bounds: are printed as an interval") {
  CHECK(Bounds{}.interval() == "[-inf inf]");
  CHECK(Bounds{.least = 0, .most = 1, .excludes_least = true, .excludes_most = true}.interval() == "(0 1)");
  CHECK(Bounds{0, 2147483647}.interval() == "[0 2147483647]");
}
