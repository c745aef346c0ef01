// Initial weights: mtl's logarithm and cosine compared with libm's, their bits, and the moments of the random numbers.
#include "nn/init.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/hash.h"
#include "device/memory.h"
#include "device/philox.h"
#include "tests/axis_slice.h"
#include "tests/instruction_sets.h"

using namespace mtl;
using test::on_every_instruction_set;

TEST_CASE("normals equal Box and Muller with libm's functions to 1e-14") {
  std::vector<double> got(40000);
  normal_numbers(1234, 77, 0, 20000, got.data());
  for (std::uint64_t counter = 0; counter < 20000; ++counter) {
    auto words = philox({1234, 77}, 0, counter);
    double u = static_cast<double>((std::uint64_t{words[0]} << 21) ^ (words[1] >> 11)) * 0x1p-53 + 0x1p-53;
    double v = static_cast<double>((std::uint64_t{words[2]} << 21) ^ (words[3] >> 11)) * 0x1p-53;
    double radius = std::sqrt(-2 * std::log(u));
    CHECK(std::abs(got[2 * counter] - radius * std::cos(2 * M_PI * v)) < 1e-14 * std::max(1.0, radius));
    CHECK(std::abs(got[2 * counter + 1] - radius * std::sin(2 * M_PI * v)) < 1e-14 * std::max(1.0, radius));
  }
}

TEST_CASE("normals have the bits of mtl 0.1.0 with every instruction set") {
  const std::uint64_t seed = 0x123456789ABCDEF, first = (std::uint64_t{1} << 32) - 5000;
  on_every_instruction_set([&] {
    std::vector<double> got(40002, -7);
    normal_numbers(seed, 9, first, 20000, got.data());
    CHECK(hash_text(hash_bytes(got.data(), 40000 * sizeof(double))) == "fcc1f1b17b9525d9");
    CHECK(got[40000] == -7);
    for (std::size_t pairs : {1, 63, 64, 65}) {
      std::vector<double> few(2 * pairs + 1, -7);
      normal_numbers(seed, 9, first, pairs, few.data());
      CHECK(std::equal(few.begin(), few.end() - 1, got.begin()));
      CHECK(few.back() == -7);
    }
  });
}

TEST_CASE("an initialized parameter has its mean, deviation and zero padding, which vary with name and seed") {
  Buffer memory(Device::cpu, 1300 * 100 * 4);
  Tensor value = memory.tensor(DType::f32, {1300, 100});
  ParamSpec spec{.name = "a", .shape = {1234, 100}, .padded_rows = 1300, .init_std = 0.02f};
  initialize_param({value}, whole_slice(spec.shape), spec, 1);
  const float* data = value.data<float>();
  double sum = 0, squares = 0;
  for (int i = 0; i < 123400; ++i) sum += data[i], squares += double(data[i]) * data[i];
  CHECK(std::abs(sum / 123400) < 4 * 0.02 / std::sqrt(123400.0));
  CHECK(std::sqrt(squares / 123400) == doctest::Approx(0.02).epsilon(0.01));
  CHECK(std::all_of(data + 123400, data + 130000, [](float x) { return x == 0; }));
  float first = data[0];
  initialize_param({value}, whole_slice(spec.shape), spec, 2);
  CHECK(data[0] != first);
  spec.name = "b";
  initialize_param({value}, whole_slice(spec.shape), spec, 1);
  CHECK(data[0] != first);
}

TEST_CASE("an initialized parameter is the normals times the deviation, rounded to `load`, then as stored") {
  const std::int64_t count = 2051;
  ParamSpec spec{.name = "w", .shape = {count}, .init_std = 0.02f};
  std::vector<double> normals(static_cast<std::size_t>(count) + 1);
  normal_numbers(5, static_cast<std::uint32_t>(hash_bytes("w", 1)), 0, normals.size() / 2, normals.data());
  Buffer memory(Device::cpu, 1 << 15);
  on_every_instruction_set([&] {
    for (const DType load : {DType::f32, DType::bf16, DType::f16}) {
      const std::vector<Tensor> values = {memory.tensor(DType::f32, {count}),
                                          memory.tensor(DType::bf16, {count}, 1 << 14),
                                          memory.tensor(DType::f16, {count}, (1 << 14) + (1 << 13))};
      initialize_param(values, whole_slice(spec.shape), spec, 5, load);
      bool equal = true;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto scaled = static_cast<float>(normals[static_cast<std::size_t>(i)] * double{spec.init_std});
        float loaded = scaled;
        with_float_type(load, [&]<class L>(L) { loaded = widen(narrow<L>(scaled)); });
        equal = equal && values[0].data<float>()[i] == loaded &&
                widen(values[1].data<Bf16>()[i]) == widen(narrow<Bf16>(loaded)) &&
                widen(values[2].data<Half>()[i]) == widen(narrow<Half>(loaded));
      }
      CHECK(equal);
    }
  });
}

TEST_CASE("slices of an initialized parameter equal the whole, bit for bit") {
  ParamSpec spec{.name = "w", .shape = {6, 5, 7}, .init_std = 0.5f};
  Buffer memory(Device::cpu, 4096);
  Tensor whole = memory.tensor(DType::f32, {210}), part = memory.tensor(DType::f32, {210}, 1024);
  initialize_param({whole}, whole_slice(spec.shape), spec, 3);
  for (int axis : {0, 1, 2}) {
    std::int64_t parts = spec.shape[static_cast<std::size_t>(axis)];
    for (std::int64_t number = 0; number < parts; ++number) {
      Slice slice = axis_slice(spec.shape, axis, number, parts);
      initialize_param({part}, slice, spec, 3);
      for_each_overlap(slice, whole_slice(spec.shape), [&](const Overlap& overlap) {
        for (std::int64_t i = 0; i < overlap.count; ++i)
          CHECK(part.data<float>()[overlap.in_a + i] == whole.data<float>()[overlap.in_b + i]);
      });
    }
  }
}
