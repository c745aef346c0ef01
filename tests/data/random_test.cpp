#include "data/numpy_random.h"

#include <numeric>

#include "base/error.h"
#include "tests/data/golden.h"

using namespace mtl;

namespace {

template <class T = std::int64_t>
std::vector<T> count_up(std::int64_t n) {
  std::vector<T> items(static_cast<std::size_t>(n));
  std::iota(items.begin(), items.end(), 0);
  return items;
}

/// Shuffles 0 .. n-1, in the record's type, and checks the result against the record.
void check_shuffle(NumpyRandom& random, std::int64_t n, const Json& record) {
  const auto check = [&]<class T>(std::vector<T> items) {
    random.shuffle(std::span(items));
    golden::check_array<T>(items, record);
  };
  const std::string& dtype = record.at("dtype").as_string();
  if (dtype == "int32")
    check(count_up<std::int32_t>(n));
  else if (dtype == "uint32")
    check(count_up<std::uint32_t>(n));
  else
    check(count_up<std::int64_t>(n));
}

void check_stream(const Json& entry) {
  const std::string& kind = entry.at("kind").as_string();
  const std::int64_t seed = entry.at("seed").as_int();
  if (kind == "mt19937_u32") {
    Mt19937 stream(static_cast<std::uint32_t>(seed));
    std::vector<std::uint32_t> draws(static_cast<std::size_t>(entry.at("n").as_int()));
    for (std::uint32_t& draw : draws) draw = stream.next();
    golden::check_array<std::uint32_t>(draws, entry.at("result"));
  } else if (kind == "numpy_shuffle") {
    NumpyRandom random(static_cast<std::uint32_t>(seed));
    check_shuffle(random, entry.at("n").as_int(), entry.at("result"));
  } else if (kind == "numpy_shuffle_consecutive") {
    NumpyRandom random(static_cast<std::uint32_t>(seed));
    const auto& results = entry.at("results").as_array();
    for (std::size_t i = 0; i < results.size(); ++i) {
      check_shuffle(random, entry.at("sizes").as_array()[i].as_int(), results[i]);
    }
  } else {
    REQUIRE(kind == "torch_randperm");
    golden::check_array<std::int64_t>(torch_randperm(static_cast<std::uint64_t>(seed), entry.at("n").as_int()),
                                      entry.at("result"));
  }
}

}  // namespace

TEST_CASE("random streams equal NumPy's and torch's") {
  const auto cases = golden_lines("golden/random/cases.jsonl");
  CHECK(cases.size() > 50);
  for (const Json& entry : cases) {
    CAPTURE(entry.at("kind").as_string());
    CAPTURE(entry.int_or("n", -1));
    CAPTURE(entry.at("seed").as_int());
    check_stream(entry);
  }
}

TEST_CASE("sizes for which torch permutes in another way are refused") {
  CHECK_THROWS_WITH_AS(torch_randperm(1, (INT64_C(1) << 32) / 20), doctest::Contains("only up to 214748363"), Error);
  CHECK_THROWS_AS(torch_randperm(1, -1), Error);
}

TEST_CASE("a permutation does not depend on the type of its items") {
  auto narrow = count_up<std::int32_t>(1000);
  auto wide = count_up(1000);
  NumpyRandom(7).shuffle(std::span(narrow));
  NumpyRandom(7).shuffle(std::span(wide));
  CHECK(std::equal(narrow.begin(), narrow.end(), wide.begin()));
}
