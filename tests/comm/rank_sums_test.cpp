// Sums over ranks: every instruction set on this machine matches a plain loop bit for bit, and fp64 sums within bounds.
#include "comm/rank_sums.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "tests/instruction_sets.h"

namespace mtl {
namespace {

using test::on_every_instruction_set;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return narrow<T>(static_cast<float>(value));
}
double value_of(double x) { return x; }
template <class T>
double value_of(T x) {
  return static_cast<double>(widen(x));
}

/// Returns numbers of both signs that vary by orders of magnitude, so that the addition order matters.
template <class T>
std::vector<std::vector<T>> random_inputs(std::size_t ranks, std::size_t count) {
  std::mt19937 generator(static_cast<std::mt19937::result_type>(ranks * 1000 + count));
  std::normal_distribution<double> normal;
  std::vector<std::vector<T>> inputs(ranks);
  for (auto& input : inputs)
    for (std::size_t i = 0; i < count; ++i)
      input.push_back(element<T>(normal(generator) * std::ldexp(1.0, static_cast<int>(generator() % 12) - 6)));
  return inputs;
}

template <class T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& inputs) {
  std::vector<T> out(inputs[0].size());
  std::vector<const std::byte*> addresses;
  for (const auto& input : inputs) addresses.push_back(reinterpret_cast<const std::byte*>(input.data()));
  sum_in_rank_order(dtype_of<T>(), reinterpret_cast<std::byte*>(out.data()), addresses, out.size() * sizeof(T));
  return out;
}

/// Returns the sum of element i in rank order. Computes in fp64 for double and in fp32 otherwise, and rounds once.
template <class T>
T plain_sum(const std::vector<std::vector<T>>& inputs, std::size_t i) {
  std::conditional_t<std::is_same_v<T, double>, double, float> sum = 0;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    auto x = static_cast<decltype(sum)>(value_of(inputs[r][i]));
    sum = r == 0 ? x : sum + x;
  }
  return element<T>(static_cast<double>(sum));
}

/// Returns the distance from `value` to the next 16-bit number away from zero.
template <class T>
double last_place(T value) {
  T next = value;
  ++next.bits;  // away from zero
  return std::abs(value_of(next) - value_of(value));
}

template <class Body>
void for_each_type(const Body& body) {
  body(float());
  body(double());
  body(Bf16());
  body(Half());
}

}  // namespace

TEST_CASE("rank sums: equal a plain loop bit for bit, for odd sizes, and into any of the inputs") {
  on_every_instruction_set([] {
    for_each_type([]<class T>(T) {
      CAPTURE(std::string(name_of(dtype_of<T>())));
      std::size_t different = 0, compared = 0;
      for (std::size_t ranks : {1u, 2u, 3u, 8u}) {
        for (std::size_t count : {0u, 1u, 7u, 16u, 33u, 5001u}) {
          auto inputs = random_inputs<T>(ranks, count);
          std::vector<T> expected;
          for (std::size_t i = 0; i < count; ++i) expected.push_back(plain_sum(inputs, i));
          auto compare = [&](const std::vector<T>& sum) {
            different += count > 0 && std::memcmp(sum.data(), expected.data(), count * sizeof(T)) != 0 ? 1 : 0;
            compared += count;
          };
          compare(sum_of(inputs));
          for (std::size_t into = 0; into < ranks; ++into) {
            auto copy = inputs;
            std::vector<const std::byte*> addresses;
            for (const auto& input : copy) addresses.push_back(reinterpret_cast<const std::byte*>(input.data()));
            sum_in_rank_order(dtype_of<T>(), reinterpret_cast<std::byte*>(copy[into].data()), addresses,
                              count * sizeof(T));
            compare(copy[into]);
          }
        }
      }
      CHECK(compared > 90000);
      CHECK(different == 0);
    });
  });
}

TEST_CASE("rank sums: bf16 and f16 of 2 and 3 ranks are within one unit in the last place of the fp64 sum") {
  on_every_instruction_set([] {
    for_each_type([]<class T>(T) {
      if constexpr (sizeof(T) == 2) {
        CAPTURE(std::string(name_of(dtype_of<T>())));
        for (std::size_t ranks : {2u, 3u}) {
          auto inputs = random_inputs<T>(ranks, 20000);
          std::vector<T> sums = sum_of(inputs);
          double worst = 0;
          for (std::size_t i = 0; i < sums.size(); ++i) {
            double exact = 0;
            for (const auto& input : inputs) exact += value_of(input[i]);
            double error = std::abs(value_of(sums[i]) - exact) / last_place(sums[i]);
            worst = error <= worst ? worst : error;
          }
          CHECK(worst <= 1);
          CHECK(worst > 0.4);  // rounding occurred
        }
      }
    });
  });
}

TEST_CASE("rank sums: NaN and infinity propagate, an overflow is infinite") {
  on_every_instruction_set([] {
    for_each_type([]<class T>(T) {
      CAPTURE(std::string(name_of(dtype_of<T>())));
      const double largest = value_of(element<T>(std::is_same_v<T, Half> ? 65504.0 : 3.3e38));
      for (std::size_t at : {0u, 4u, 18u}) {  // in a full vector and in the remainder
        CAPTURE(at);
        auto summed = [&](double a, double b) {
          std::vector<std::vector<T>> inputs(2, std::vector<T>(19, element<T>(1)));
          inputs[0][at] = element<T>(a);
          inputs[1][at] = element<T>(b);
          std::vector<T> sums = sum_of(inputs);
          for (std::size_t i = 0; i < sums.size(); ++i) CHECK((i == at || value_of(sums[i]) == 2));
          return value_of(sums[at]);
        };
        CHECK(std::isnan(summed(std::nan(""), 1)));
        CHECK(std::isnan(summed(1, std::nan(""))));
        CHECK(std::isnan(summed(kInfinity, -kInfinity)));
        CHECK(summed(kInfinity, 1) == kInfinity);
        CHECK(summed(1, -kInfinity) == -kInfinity);
        if (sizeof(T) < 8) CHECK(summed(largest, largest) == kInfinity);
      }
    });
  });
}

TEST_CASE("rank sums: every kind of group refuses integers") {
  Stream stream(Device::meta);
  Tensor integers(nullptr, DType::i32, {4}), part(nullptr, DType::i32, {2}), halves(nullptr, DType::bf16, {4});
  SelfCommunicator self;
  MetaCommunicator meta(0, 2);
  CHECK_THROWS_WITH_AS(self.all_reduce(stream, integers), doctest::Contains("not of int32"), Error);
  CHECK_THROWS_AS(self.reduce_scatter(stream, integers, integers), Error);
  CHECK_THROWS_AS(meta.all_reduce(stream, integers), Error);
  CHECK_THROWS_AS(meta.reduce_scatter(stream, part, integers), Error);
  CHECK_NOTHROW(self.all_reduce(stream, halves));
  meta.all_reduce(stream, halves);
  CHECK(meta.take_traffic().bytes == 8);  // twice 2 bytes for half of 4 elements
}

}  // namespace mtl
