// Measured choices: made with predetermined times.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "device/choices.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

/// Returns predetermined times and counts its calls.
struct Measurer {
  std::map<std::string, double> seconds;
  int calls = 0;
  Choices::Measure measure() {
    return [this](const std::string& candidate) {
      ++calls;
      return seconds.at(candidate);
    };
  }
};

}  // namespace

TEST_CASE("choices: measures once and keeps the fastest candidate") {
  Choices choices;
  Measurer first{{{"a", 3}, {"b", 1}, {"c", 2}}};
  CHECK(choices.choose("product", {"a", "b", "c"}, first.measure()) == "b");
  CHECK(first.calls == 3);
  Measurer second{{{"a", 1}, {"b", 2}, {"c", 3}}};
  CHECK(choices.choose("product", {"a", "b", "c"}, second.measure()) == "b");
  CHECK(second.calls == 0);
  CHECK(choices.choose("other", {"a", "b"}, second.measure()) == "a");
  CHECK(choices.table() == std::map<std::string, std::string>{{"other", "a"}, {"product", "b"}});
}

TEST_CASE("choices: measures again if the choice is no longer a candidate") {
  Choices choices;
  choices.set("product", "gone");
  Measurer measurer{{{"a", 2}, {"b", 1}}};
  CHECK(choices.choose("product", {"a", "b"}, measurer.measure()) == "b");
  CHECK(choices.find("product") == "b");
}

TEST_CASE("choices: NaN and infinity never win, ties go to the first, a single candidate is not measured") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Choices choices;
  Measurer measurer{{{"a", NAN}, {"b", kInfinity}, {"c", 5}, {"d", 5}}};
  CHECK(choices.choose("product", {"a", "b", "c", "d"}, measurer.measure()) == "c");
  CHECK(choices.choose("unusable", {"a", "b"}, measurer.measure()) == "a");
  measurer.calls = 0;
  CHECK(choices.choose("single", {"b"}, measurer.measure()) == "b");
  CHECK(measurer.calls == 0);
  CHECK(test::error_of([&] { choices.choose("none", {}, measurer.measure()); }) == "nothing to choose from for none");
}

TEST_CASE("choices: without measuring, known choices win, then the first candidate") {
  Choices choices;
  choices.set("product", "b");
  choices.set_measuring(false);
  Measurer measurer{{{"a", 2}, {"b", 1}}};
  CHECK(choices.choose("product", {"a", "b"}, measurer.measure()) == "b");
  CHECK(choices.choose("other", {"a", "b"}, measurer.measure()) == "a");
  CHECK(measurer.calls == 0);
}

TEST_CASE("choices: add() does not replace known choices") {
  Choices choices;
  choices.set("product", "known");
  choices.add({{"product", "added"}, {"more", "added"}});
  CHECK(choices.find("product") == "known");
  CHECK(choices.find("more") == "added");
  CHECK_FALSE(choices.find("none"));
}
