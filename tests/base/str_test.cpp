// Numbers in Python's syntax, and suggestions for mistyped words.
#include "base/str.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/count_of.h"

using namespace mtl;

TEST_CASE("parse_int accepts what Python's int() accepts") {
  CHECK(parse_int("007") == 7);
  CHECK(parse_int("+5") == 5);
  CHECK(parse_int(" 1_000 ") == 1000);
  CHECK(parse_int("-1") == -1);
  for (const char* bad : {"", " ", "1__0", "_1", "1_", "+-1", "1.0", "0x10", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_int(bad).has_value());
  }
}

TEST_CASE("parse_float accepts what argparse's float accepts") {
  CHECK(parse_float("1e-4") == 1e-4);
  CHECK(parse_float(".1") == 0.1);
  CHECK(parse_float("+.9") == 0.9);
  CHECK(parse_float("1.") == 1.0);
  CHECK(parse_float("inf").value() > 1e300);
  for (const char* bad : {"", "1,5", "0x10", "1e", "nan(1)"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_float(bad).has_value());
  }
}

TEST_CASE("cat writes a number with the fewest digits that read back, and with an exponent only if it is far from 1") {
  CHECK(cat(500000.0, " ", 1e6, " ", -3e-4, " ", 0.1, " ", 0.0) == "500000 1000000 -0.0003 0.1 0");
  CHECK(cat(1e-5, " ", 1e12, " ", 1e-4 / 3, " ", INFINITY) == "1e-05 1e+12 3.3333333333333335e-05 inf");
  for (double number : {1.0 / 3, 2e6 / 3, 1e-4, 0.00012345678901234567}) CHECK(parse_float(cat(number)) == number);
}

TEST_CASE("nearest finds the intended flag") {
  std::vector<std::string> flags = {"--hidden-size", "--num-layers", "--lr"};
  CHECK(nearest("--hidden-sise", flags) == "--hidden-size");
  CHECK(nearest("--sede", {"--speed", "--seed"}) == "--seed");  // two swapped letters count as one mistake
  CHECK(nearest("--completely-different", flags).empty());
}

TEST_CASE("lowered changes ASCII letters only") { CHECK(lowered("gH200 \xC3\x84Z[@") == "gh200 \xC3\x84z[@"); }

TEST_CASE("join, of choices and of the first of many words") {
  CHECK(join(std::vector<int>{1, 20}, "+", [](int number) { return cat("<", number, ">"); }) == "<1>+<20>");
  CHECK(join_or({}).empty());
  CHECK(join_or({"a"}) == "a");
  CHECK(join_or({"a", "b"}) == "a or b");
  CHECK(join_or({"a", "b", "c"}) == "a, b or c");
  CHECK(join_first({}, 2).empty());
  CHECK(join_first({"a", "b"}, 2, "tensor") == "a, b");
  CHECK(join_first({"a", "b", "c"}, 2, "tensor") == "a, b and 1 more tensor");
  CHECK(join_first({"a", "b", "c"}, 1, "tensor") == "a and 2 more tensors");
  CHECK(join_first({"a", "b", "c"}, 1) == "a and 2 more");
}

TEST_CASE("wrap fills lines with words") {
  using Lines = std::vector<std::string>;
  CHECK(wrap({}, 10) == Lines{""});
  CHECK(wrap({"one", "two", "three"}, 7) == Lines{"one two", "three"});
  CHECK(wrap({"one", "two", "three"}, 6) == Lines{"one", "two", "three"});
  CHECK(wrap({"longer-than-a-line", "x"}, 8) == Lines{"longer-than-a-line", "x"});
}

TEST_CASE("wrap counts the words that do not fit") {
  using Lines = std::vector<std::string>;
  CHECK(wrap({"aa", "bb", "cc"}, 5, 2) == Lines{"aa bb", "cc"});
  CHECK(wrap({"aa", "bb", "cc", "dd", "ee"}, 30, 1) == Lines{"aa bb cc dd ee"});
  CHECK(wrap({"aa", "bb", "cc", "dd", "ee"}, 19, 1) == Lines{"aa bb .. and 3 more"});
  CHECK(wrap({"aa", "bb", "cc", "dd", "ee"}, 18, 1) == Lines{"aa .. and 4 more"});
}

TEST_CASE("numbers, bytes and seconds are printed in human-readable form") {
  CHECK(with_commas(1234567) == "1,234,567");
  CHECK(with_commas(-123) == "-123");
  CHECK(count_of(0, "document") == "0 documents");
  CHECK(count_of(1, "document") == "1 document");
  CHECK(count_of(2000, "document") == "2,000 documents");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_seconds(75) == "1 min 15 s");
}
