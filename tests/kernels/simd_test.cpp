// SIMD: the functions in simd.h and activation_simd.h, with every instruction set on this machine.
#include <bit>
#include <cmath>

#include "tests/kernels/activation_reference.h"
#include "tests/kernels/reference.h"

#define MTL_SIMD_FILE "tests/kernels/simd_test.cpp"
#include "kernels/activation_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void exp_all(const float* x, float* y, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(exp(lanes.load(x + i)), y + i); });
}

template <class Function>
void activate_by(const float* x, float* y, float* slope, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR {
    lanes.store(Function::value(lanes.load(x + i)), y + i);
    lanes.store(Function::derivative(lanes.load(x + i)), slope + i);
  });
}

void activate_all(Activation activation, const float* x, float* y, float* slope, std::size_t n) {
  with_activation(activation, [&](auto function) HWY_ATTR { activate_by<decltype(function)>(x, y, slope, n); });
}

template <class T>
void convert_by(const T* from, float* wide, T* back, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(from + i), wide + i); });
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(wide + i), back + i); });
}

void convert_all(DType dtype, const void* from, float* wide, void* back, std::size_t n) {
  with_float(dtype,
             [&]<class T>(T) HWY_ATTR { convert_by(static_cast<const T*>(from), wide, static_cast<T*>(back), n); });
}

template <class T>
void narrow_by(const float* from, T* to, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(from + i), to + i); });
}

void narrow_all(DType dtype, const float* from, void* to, std::size_t n) {
  with_float(dtype, [&]<class T>(T) HWY_ATTR { narrow_by(from, static_cast<T*>(to), n); });
}

void philox_all(PhiloxKey key, std::uint64_t sample, std::uint64_t first, std::size_t blocks, std::uint32_t* out) {
  philox_blocks(key, sample, first, blocks, out);
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/instruction_sets.h"

namespace mtl {
using test::on_every_instruction_set;

TEST_CASE("simd: every bf16 and f16 number round-trips through fp32; fp32 rounds as the scalar functions do") {
  on_every_instruction_set([] {
    for (DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(std::string(name_of(dtype)));
      with_float_type(dtype, [&]<class T>(T) {
        if constexpr (!std::is_same_v<T, float>) {
          std::vector<T> all(65535), back(all.size());  // an odd count: the last vector is partial
          for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
          std::vector<float> wide(all.size());
          MTL_DISPATCH(convert_all)(dtype, all.data(), wide.data(), back.data(), all.size());
          std::size_t differing = 0;
          for (std::size_t i = 0; i < all.size(); ++i) {
            const bool is_nan = std::isnan(widen(all[i]));
            const bool same = is_nan ? std::isnan(wide[i]) && std::isnan(widen(back[i]))
                                     : wide[i] == widen(all[i]) && back[i].bits == all[i].bits;
            differing += same ? 0 : 1;
          }
          CHECK(differing == 0);
          std::mt19937 generator(7);
          std::vector<float> from(1 << 18);
          for (float& x : from) x = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
          for (std::size_t i = 0; i + 3 < all.size(); i += 2) {  // halfway between neighbors, and the float next to it
            const float middle = (widen(all[i]) + widen(all[i + 1])) / 2;
            from[i] = middle;
            from[i + 1] = std::nextafter(middle, 0.0f);
          }
          std::vector<T> to(from.size());
          MTL_DISPATCH(narrow_all)(dtype, from.data(), to.data(), from.size());
          for (std::size_t i = 0; i < from.size(); ++i) {
            const bool same = std::isnan(from[i]) ? std::isnan(widen(to[i])) : to[i].bits == narrow<T>(from[i]).bits;
            differing += same ? 0 : 1;
          }
          CHECK(differing == 0);
        }
      });
    }
  });
}

TEST_CASE("simd: exp is within 2e-7 from 0 to its underflow, and right for infinity and NaN") {
  on_every_instruction_set([] {
    const std::size_t n = 100003;
    std::vector<float> x(n), y(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 88 - 175.3f * static_cast<float>(i) / static_cast<float>(n);
    MTL_DISPATCH(exp_all)(x.data(), y.data(), n);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      worst = test::larger_or_nan(worst, std::abs(static_cast<double>(y[i]) - expected) / expected);
    }
    CHECK(worst < 2e-7);
    const float special[] = {0.0f, -INFINITY, -88.0f, -1e30f, NAN};
    float result[5];
    MTL_DISPATCH(exp_all)(special, result, 5);
    CHECK(result[0] == 1.0f);
    for (int i : {1, 2, 3}) CHECK(result[i] == 0.0f);
    CHECK(std::isnan(result[4]));
  });
}

TEST_CASE("simd: activations and their derivatives stay accurate far into the tails") {
  on_every_instruction_set([] {
    const std::size_t n = 40003;
    std::vector<float> x(n), y(n), slope(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 8 - 16 * static_cast<float>(i) / static_cast<float>(n - 1);
    for (const Activation activation : test::kActivations) {
      CAPTURE(static_cast<int>(activation));
      MTL_DISPATCH(activate_all)(activation, x.data(), y.data(), slope.data(), n);
      const double tolerance = activation == Activation::gelu_tanh ? 8e-6 : 2e-6;
      double worst_value = 0, worst_slope = 0;  // relative to the bounds
      for (std::size_t i = 0; i < n; ++i) {
        const double at = static_cast<double>(x[i]), gate = std::abs(test::reference_gate(activation, at));
        const double value = test::reference_activation(activation, at);
        const double derivative = test::reference_activation_derivative(activation, at);
        const double allowed = 4e-7 * std::max(1.0, std::abs(at)) * std::max(gate, std::abs(derivative));
        const auto ratio = [](double error, double bound) { return error == 0 ? 0 : error / bound; };
        worst_value = test::larger_or_nan(
            worst_value, ratio(std::abs(static_cast<double>(y[i]) - value), tolerance * std::abs(value)));
        worst_slope = test::larger_or_nan(worst_slope, ratio(std::abs(static_cast<double>(slope[i]) - derivative),
                                                             allowed + 4e-6 * std::abs(derivative)));
      }
      CHECK(worst_value < 1);
      CHECK(worst_slope < 1);
    }
  });
}

TEST_CASE("simd: activations are within 2e-7 of their magnitude around zero") {
  on_every_instruction_set([] {
    const std::size_t n = 20001;
    std::vector<float> x(n), y(n), slope(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) / 10000 - 1;
    for (const Activation activation : test::kActivations) {
      CAPTURE(static_cast<int>(activation));
      MTL_DISPATCH(activate_all)(activation, x.data(), y.data(), slope.data(), n);
      double worst = 0, worst_slope = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double at = static_cast<double>(x[i]);
        worst = test::larger_or_nan(worst,
                                    std::abs(static_cast<double>(y[i]) - test::reference_activation(activation, at)));
        worst_slope = test::larger_or_nan(worst_slope, std::abs(static_cast<double>(slope[i]) -
                                                                test::reference_activation_derivative(activation, at)));
      }
      CHECK(worst < 2e-7);
      CHECK(worst_slope < 3e-7);
    }
  });
}

TEST_CASE("simd: activations and their derivatives at zero, at large magnitudes, and of NaN") {
  on_every_instruction_set([] {
    for (const Activation activation : test::kActivations) {
      CAPTURE(static_cast<int>(activation));
      const float x[] = {0.0f, 90.0f, -90.0f, 1e6f, -1e6f, NAN};
      float y[6], slope[6];
      MTL_DISPATCH(activate_all)(activation, x, y, slope, 6);
      CHECK(y[0] == 0.0f);
      CHECK(std::abs(static_cast<double>(slope[0]) - test::reference_activation_derivative(activation, 0)) < 1e-7);
      for (int i : {1, 3}) {
        CHECK(y[i] == (activation == Activation::squared_relu ? x[i] * x[i] : x[i]));
        CHECK(slope[i] == (activation == Activation::squared_relu ? 2 * x[i] : 1.0f));
      }
      for (int i : {2, 4}) {
        CHECK(std::abs(y[i]) < 1e-20f);
        CHECK(std::abs(slope[i]) < 1e-5f);
      }
      CHECK(std::isnan(y[5]));
      if (activation != Activation::relu) CHECK(std::isnan(slope[5]));
    }
  });
}

TEST_CASE("simd: philox equals the scalar definition, across the carry into the counter's second word") {
  on_every_instruction_set([] {
    const PhiloxKey key{0xDEADBEEF, 17};
    const std::uint64_t sample = (std::uint64_t{7} << 32) + 3;
    for (std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 5}) {
      for (std::size_t blocks : {1, 3, 7, 8, 21}) {
        std::vector<std::uint32_t> words(4 * blocks + 1, 0xAAAAAAAA);
        MTL_DISPATCH(philox_all)(key, sample, first, blocks, words.data());
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
