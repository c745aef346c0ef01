// GEMM algorithms: their text form.
#include "kernels/gemm_algorithm.h"

#include <doctest/doctest.h>

using namespace mtl;

TEST_CASE("gemm_algorithm: text round-trips") {
  const GemmAlgorithm algorithm{66, {20, 36, 0, 0, 1, 0, 0, 2}};
  CHECK(algorithm.text() == "66 tile=20 stages=36 swizzle=1 cluster=2");
  CHECK(GemmAlgorithm::parse(algorithm.text()) == algorithm);
  CHECK(GemmAlgorithm::parse("0") == GemmAlgorithm{});
  const GemmAlgorithm all{1, {2, 3, 4, 5, 6, 7, 8, 9}};
  CHECK(GemmAlgorithm::parse(all.text()) == all);
}

TEST_CASE("gemm_algorithm: damaged text is refused") {
  for (const char* text :
       {"", " ", "x", "66 ", " 66", "-1", "66 tile", "66 tile=", "66 tile=0", "66 tile=-3", "66 tile=2x",
        "66 tile=99999999999", "66 stages=3 tile=2", "66 tile=2 tile=2", "66 speed=3", "66  tile=2", "fused", "066"}) {
    CAPTURE(text);
    CHECK_FALSE(GemmAlgorithm::parse(text));
  }
}
