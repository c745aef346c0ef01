// Error measures: NaN anywhere, or an empty reference, never passes.
#include "tests/relative_error.h"

#include <doctest/doctest.h>

#include <limits>

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("errors: 0 for equal numbers, otherwise the size of the difference") {
  const float got[] = {1, 2, 4};
  CHECK(max_relative(got, {1, 2, 4}) == 0);
  CHECK(rms_relative(got, {1, 2, 4}) == 0);
  CHECK(max_relative(got, {1, 2, 5}) == 0.2);
  CHECK(rms_relative(got, {1, 2, 0}) > 1);
}

TEST_CASE("errors: NaN anywhere in either operand is not below any tolerance") {
  for (std::size_t place = 0; place < 3; ++place) {
    CAPTURE(place);
    std::vector<float> got{1, 2, 4};
    std::vector<double> expected{1, 2, 4};
    got[place] = kNan;
    CHECK(std::isnan(max_relative(got.data(), expected)));
    CHECK(std::isnan(rms_relative(got.data(), expected)));
    got[place] = 0;
    expected[place] = double{kNan};
    CHECK(std::isnan(max_relative(got.data(), expected)));
    CHECK(std::isnan(rms_relative(got.data(), expected)));
  }
  CHECK(std::isnan(larger_or_nan(double{kNan}, 1)));
  CHECK(std::isnan(larger_or_nan(1, double{kNan})));
  CHECK(larger_or_nan(1, 2) == 2);
}

TEST_CASE("errors: infinities are not below any tolerance, and an empty reference is refused") {
  const float infinite[] = {std::numeric_limits<float>::infinity()};
  CHECK_FALSE(max_relative(infinite, {1}) < 1e300);
  CHECK_FALSE(rms_relative(infinite, {double{infinite[0]}}) < 1e300);
  CHECK_THROWS(max_relative(infinite, {}));
  CHECK_THROWS(rms_relative(infinite, {}));
}
