// The matrix product in all four orientations, its epilogues, and its corner cases.
#include "kernels/gemm.h"

#include "tests/kernels/activation_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Case {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  Owned a = random_tensor(a_transposed ? Shape{k, m} : Shape{m, k}, 1);
  Owned b = random_tensor(b_transposed ? Shape{n, k} : Shape{k, n}, 2);

  Operand left() const { return {a, a_transposed}; }
  Operand right() const { return {b, b_transposed}; }
  double a_at(std::int64_t i, std::int64_t p) const {
    return static_cast<double>(a[a_transposed ? p * m + i : i * k + p]);
  }
  double b_at(std::int64_t p, std::int64_t j) const {
    return static_cast<double>(b[b_transposed ? j * k + p : p * n + j]);
  }
  std::vector<double> product() const {
    std::vector<double> out(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p) sum += a_at(i, p) * b_at(p, j);
        out[static_cast<std::size_t>(i * n + j)] = sum;
      }
    }
    return out;
  }
};

std::vector<double> mapped(std::vector<double> values, Activation activation, double (*function)(Activation, double)) {
  for (double& value : values) value = function(activation, value);
  return values;
}

template <class Body>
void for_each_case(const Body& body) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (auto [m, n, k] : {Size{1, 1, 1},
                         {3, 7, 5},
                         {64, 96, 32},
                         {5, 1031, 3},
                         {1, 1031, 64},
                         {2, 259, 1031},
                         {4, 50, 33},
                         {17, 3, 1031},
                         {130, 70, 257}}) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      CAPTURE(transposes);
      body(Case{m, n, k, (transposes & 1) != 0, (transposes & 2) != 0});
    }
  }
}

}  // namespace

TEST_CASE("gemm: equals the fp64 product, overwriting and accumulating, in all orientations") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream stream(kDevice, 2);
  for_each_case([&](const Case& g) {
    Owned c = random_tensor({g.m, g.n}, 3);
    std::vector<double> sum = g.product(), before = c.values();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
    gemm(stream, scratch, c, g.left(), g.right(), GradMode::accumulate);
    CHECK(relative_rms(c, sum) < kTolerance.reduction);
    gemm(stream, scratch, c, g.left(), g.right());
    CHECK(relative_rms(c, g.product()) < kTolerance.reduction);
  });
}

TEST_CASE("gemm: bias, activation with its input kept, and the derivative of the activation") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream stream(kDevice, 2);
  for_each_case([&](const Case& g) {
    Owned bias = random_tensor({g.n}, 4), aux({g.m, g.n}), c({g.m, g.n});
    std::vector<double> product = g.product(), before = product;
    for (std::size_t i = 0; i < before.size(); ++i) before[i] += bias.values()[i % static_cast<std::size_t>(g.n)];
    gemm(stream, scratch, c, g.left(), g.right(), GradMode::overwrite, {.bias = bias});
    CHECK(relative_rms(c, before) < kTolerance.reduction);
    for (const Activation activation : kActivations) {
      CAPTURE(static_cast<int>(activation));
      gemm(stream, scratch, c, g.left(), g.right(), GradMode::overwrite,
           {.bias = bias, .act = Epilogue::Act::forward, .activation = activation, .aux = aux});
      CHECK(relative_rms(aux, before) < kTolerance.reduction);
      CHECK(relative_rms(c, mapped(aux.values(), activation, reference_activation)) < kTolerance.elementwise);
      Owned dpre({g.m, g.n}), x = random_tensor({g.m, g.n}, 5);
      gemm(stream, scratch, dpre, g.left(), g.right(), GradMode::overwrite,
           {.act = Epilogue::Act::backward, .activation = activation, .aux = x});
      std::vector<double> expected = mapped(x.values(), activation, reference_activation_derivative);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= product[i];
      CHECK(relative_rms(dpre, expected) < kTolerance.reduction);
    }
  });
}

TEST_CASE("gemm: the bias gradient is the column sum of dy, with a mode of its own") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream stream(kDevice, 2);
  for (std::int64_t rows : {1, 3, 64, 65, 1031}) {
    for (std::int64_t width : {1, 7, 128, 300}) {
      for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        Owned dy = random_tensor({rows, width}, 6), x = random_tensor({rows, 5}, 7), dw({width, 5}),
              dbias = random_tensor({width}, 8);
        std::vector<double> expected(static_cast<std::size_t>(width), 0.0);
        if (mode == GradMode::accumulate) expected = dbias.values();
        for (std::int64_t i = 0; i < dy.numel(); ++i)
          expected[static_cast<std::size_t>(i % width)] += static_cast<double>(dy[i]);
        gemm(stream, scratch, dw, transposed(dy), {x}, GradMode::accumulate, {.dbias = {dbias, mode}});
        CHECK(relative_rms(dbias, expected) < kTolerance.reduction);
      }
    }
  }
}

TEST_CASE("gemm: meta plans the scratch of the bias gradient, and no call keeps any") {
  const std::int64_t rows = 1031, width = 300;
  Stream stream(kDevice, 2), counter(Device::meta, 2, kDevice);
  Arena plan(Device::meta, "scratch", 0);
  gemm(counter, plan, meta({width, 5}), transposed(meta({rows, width})), {meta({rows, 5})}, GradMode::overwrite,
       {.dbias = {meta({width})}});
  Arena scratch(kDevice, "scratch", plan.peak());
  Owned dy = random_tensor({rows, width}, 6), x = random_tensor({rows, 5}, 7), dw({width, 5}), dbias({width});
  std::vector<double> expected(static_cast<std::size_t>(width), 0.0);
  for (std::int64_t i = 0; i < dy.numel(); ++i)
    expected[static_cast<std::size_t>(i % width)] += static_cast<double>(dy[i]);
  gemm(stream, scratch, dw, transposed(dy), {x}, GradMode::overwrite, {.dbias = {dbias}});
  CHECK(relative_rms(dbias, expected) < kTolerance.reduction);
  CHECK(scratch.peak() == plan.peak());
  CHECK(scratch.used() == 0);
  CHECK(plan.used() == 0);
}

TEST_CASE("gemm: nothing to sum gives zeros, nothing to write writes nothing") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream stream(kDevice, 2);
  Owned c = filled({3, 4}, 5), a({3, 0}), b({0, 4});
  gemm(stream, scratch, c, {a}, {b}, GradMode::accumulate);
  CHECK(c[11] == 5.0f);
  Owned bias = filled({4}, 2);
  gemm(stream, scratch, c, {a}, {b}, GradMode::overwrite, {.bias = bias});
  CHECK(c.values() == std::vector<double>(12, 2.0));
  Owned none({0, 4}), no_rows({0, 2}), right({2, 4}), no_columns({3, 0}), left({3, 2}), empty({2, 0});
  gemm(stream, scratch, none, {no_rows}, {right}, GradMode::overwrite, {.bias = bias});
  gemm(stream, scratch, no_columns, {left}, {empty});
}

TEST_CASE("gemm: one thread and four give the same bits in what is ours") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned a = random_tensor({150, 1}, 9), b = random_tensor({1, 700}, 10), bias = random_tensor({700}, 11);
  Owned one({150, 700}), four({150, 700}), aux({150, 700}), dw1({700, 700}), dw4({700, 700}), dbias1({700}),
      dbias4({700});
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  gemm(serial, scratch, one, {a}, {b}, GradMode::overwrite, {.bias = bias, .act = Epilogue::Act::forward, .aux = aux});
  gemm(parallel, scratch, four, {a}, {b}, GradMode::overwrite,
       {.bias = bias, .act = Epilogue::Act::forward, .aux = aux});
  CHECK(same_bits(one, four));
  gemm(serial, scratch, dw1, transposed(one), {one}, GradMode::overwrite, {.dbias = {dbias1, GradMode::overwrite}});
  gemm(parallel, scratch, dw4, transposed(four), {four}, GradMode::overwrite, {.dbias = {dbias4, GradMode::overwrite}});
  CHECK(same_bits(dbias1, dbias4));
}

TEST_CASE("gemm: meta counts and touches nothing; wrong shapes and combinations throw") {
  Stream stream(Device::meta);
  Arena scratch(Device::meta, "scratch", 0);
  gemm(stream, scratch, meta({2, 3, 5}), {meta({2, 3, 7})}, transposed(meta({5, 7})), GradMode::overwrite,
       {.bias = meta({5})});
  CHECK(stream.counters().flops == 2.0 * 6 * 5 * 7);
  CHECK(stream.counters().bytes == 4.0 * (6 * 7 + 5 * 7 + 6 * 5 + 5));
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({5, 3})}), Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 4}), {meta({2, 4})}, {meta({4, 3})}), Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}, DType::f64), {meta({2, 4})}, {meta({4, 3})}), Error);
  CHECK_THROWS_AS(
      gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({4, 3})}, GradMode::accumulate, {.bias = meta({3})}),
      Error);
  CHECK_THROWS_AS(
      gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({4, 3})}, GradMode::overwrite, {.bias = meta({2})}),
      Error);
  CHECK_THROWS_AS(
      gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({4, 3})}, GradMode::overwrite, {.dbias = {meta({2})}}),
      Error);
  CHECK_THROWS_AS(
      gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({4, 3})}, GradMode::overwrite, {.aux = meta({2, 3})}),
      Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({4, 3})}, GradMode::overwrite,
                       {.act = Epilogue::Act::forward}),
                  Error);
}
