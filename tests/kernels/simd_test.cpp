// The functions of simd.h, on every instruction set that this machine has.
#include <cmath>

#include "tests/kernels/reference.h"

#define MTL_SIMD_FILE "tests/kernels/simd_test.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void exp_all(const float* x, float* y, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(exp(lanes.load(x + i)), y + i); });
}

void gelu_all(const float* x, float* y, float* slope, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR {
    lanes.store(gelu(lanes.load(x + i)), y + i);
    lanes.store(gelu_derivative(lanes.load(x + i)), slope + i);
  });
}

void philox_all(PhiloxKey key, std::uint64_t sample, std::uint64_t first, std::size_t blocks, std::uint32_t* out) {
  philox_blocks(key, sample, first, blocks, out);
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl {
namespace {
HWY_EXPORT(exp_all);
HWY_EXPORT(gelu_all);
HWY_EXPORT(philox_all);

/// Runs body once per instruction set.
template <class Body>
void on_every_target(const Body& body) {
  const auto all = hwy::SupportedTargets() & (HWY_TARGETS);
  for (auto rest = all; rest != 0; rest &= rest - 1) {
    hwy::GetChosenTarget().Update(rest & -rest);
    CAPTURE(hwy::TargetName(rest & -rest));
    body();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}
}  // namespace

TEST_CASE("simd: exp within 2e-7 from 0 to where it vanishes; infinity and NaN as they should") {
  on_every_target([] {
    const std::size_t n = 100003;
    std::vector<float> x(n), y(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 88 - 175.3f * static_cast<float>(i) / static_cast<float>(n);
    HWY_DYNAMIC_DISPATCH(exp_all)(x.data(), y.data(), n);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      worst = test::larger_or_nan(worst, std::abs(static_cast<double>(y[i]) - expected) / expected);
    }
    CHECK(worst < 2e-7);
    const float special[] = {0.0f, -INFINITY, -88.0f, -1e30f, NAN};
    float result[5];
    HWY_DYNAMIC_DISPATCH(exp_all)(special, result, 5);
    CHECK(result[0] == 1.0f);
    for (int i : {1, 2, 3}) CHECK(result[i] == 0.0f);
    CHECK(std::isnan(result[4]));
  });
}

TEST_CASE("simd: gelu and its derivative at zero, far out, and of NaN") {
  on_every_target([] {
    const float x[] = {0.0f, 30.0f, -30.0f, 1e6f, -1e6f, NAN};
    float y[6], slope[6];
    HWY_DYNAMIC_DISPATCH(gelu_all)(x, y, slope, 6);
    CHECK(y[0] == 0.0f);
    CHECK(slope[0] == 0.5f);
    for (int i : {1, 3}) {
      CHECK(y[i] == x[i]);
      CHECK(slope[i] == 1.0f);
    }
    for (int i : {2, 4}) {
      CHECK(std::abs(y[i]) < 1e-20f);
      CHECK(std::abs(slope[i]) < 1e-5f);
    }
    CHECK(std::isnan(y[5]));
    CHECK(std::isnan(slope[5]));
  });
}

TEST_CASE("simd: philox equals the scalar definition, across the carry into the counter's second word") {
  on_every_target([] {
    const PhiloxKey key{0xDEADBEEF, 17};
    const std::uint64_t sample = (std::uint64_t{7} << 32) + 3;
    for (std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 5}) {
      for (std::size_t blocks : {1, 3, 7, 8, 21}) {
        std::vector<std::uint32_t> words(4 * blocks + 1, 0xAAAAAAAA);
        HWY_DYNAMIC_DISPATCH(philox_all)(key, sample, first, blocks, words.data());
        for (std::size_t i = 0; i < blocks; ++i) {
          const auto expected = philox(key, sample, first + i);
          for (std::size_t j = 0; j < 4; ++j) CHECK(words[4 * i + j] == expected[j]);
        }
        CHECK(words.back() == 0xAAAAAAAA);
      }
    }
  });
}

}  // namespace mtl
#endif
