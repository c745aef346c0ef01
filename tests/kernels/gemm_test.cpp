// GEMMs in all four orientations and every dtype: results, epilogues and corner cases. References are computed from the
// operands as stored, after rounding.
#include "kernels/gemm.h"

#include "tests/kernels/activation_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr DType kGemmTypes[] = {DType::f32, DType::bf16, DType::f16};

struct GemmSize {
  std::int64_t m, n, k;
};

struct GemmCase {
  GemmSize size;
  bool a_transposed, b_transposed;
  DType type = DType::f32;  // of A and B
  std::int64_t m = size.m, n = size.n, k = size.k;
  Owned a = random_tensor(type, a_transposed ? Shape{k, m} : Shape{m, k}, 1);
  Owned b = random_tensor(type, b_transposed ? Shape{n, k} : Shape{k, n}, 2);
  std::vector<double> product = compute();

  Operand left() const { return {a, a_transposed}; }
  Operand right() const { return {b, b_transposed}; }

 private:
  std::vector<double> compute() const {
    const std::vector<double> left = a.values(), right = b.values();
    std::vector<double> out(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += left[static_cast<std::size_t>(a_transposed ? p * m + i : i * k + p)] *
                 right[static_cast<std::size_t>(b_transposed ? j * k + p : p * n + j)];
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

enum class Orientations { all, two };  // two of the four for each size and dtype: others for the next dtype

/// Calls body(case) for sizes around the GEMM's tile sizes.
template <class Body>
void for_each_gemm(Orientations orientations, const Body& body) {
  int next = 0;
  for (const GemmSize size : {GemmSize{1, 1, 1},
                              {3, 7, 5},
                              {64, 96, 32},
                              {5, 1031, 3},
                              {1, 1031, 64},
                              {2, 259, 1031},
                              {4, 50, 33},
                              {8, 33, 40},
                              {17, 3, 1031},
                              {79, 22, 63},  // oneDNN crashes with AMX
                              {530, 9, 40},
                              {130, 70, 257}}) {
    for (DType type : kGemmTypes) {
      ++next;
      for (int transposes = 0; transposes < 4; ++transposes) {
        if (orientations == Orientations::two && (transposes + next) % 2 != 0) continue;
        CAPTURE(size.m);
        CAPTURE(size.n);
        CAPTURE(size.k);
        CAPTURE(transposes);
        CAPTURE(std::string(name_of(type)));
        body(GemmCase{size, (transposes & 1) != 0, (transposes & 2) != 0, type});
      }
    }
  }
}

/// Scratch memory for one call. GEMMs on cuda have a 32 MiB workspace.
const std::size_t kGemmScratch = std::size_t{kDevice == Device::cuda ? 48u : 16u} << 20;

struct GemmContext {
  Arena scratch{kDevice, "scratch", kGemmScratch};
  Stream stream{kDevice, 2};
};

}  // namespace

TEST_CASE("gemm: equals the fp64 product, overwriting and accumulating, in all orientations and dtypes") {
  GemmContext ctx;
  for_each_gemm(Orientations::all, [&](const GemmCase& g) {
    for (DType type : kGemmTypes) {
      CAPTURE(std::string(name_of(type)));
      Owned c = random_tensor(type, {g.m, g.n}, 3);
      std::vector<double> sum = g.product;
      add_to(sum, c.values());
      gemm(ctx.stream, ctx.scratch, c, g.left(), g.right(), GradMode::accumulate);
      CHECK(relative_rms(c, sum) < rounding_of(type, kTolerance.reduction));
      gemm(ctx.stream, ctx.scratch, c, g.left(), g.right());
      CHECK(relative_rms(c, g.product) < rounding_of(type, kTolerance.reduction));
    }
  });
}

TEST_CASE("gemm: bias, activation with its input kept, and the derivative of the activation") {
  GemmContext ctx;
  const auto check = [&](const GemmCase& g, DType type) {
    CAPTURE(std::string(name_of(type)));
    const Shape shape{g.m, g.n};
    Owned bias = random_tensor(type, {g.n}, 4, 3), aux(type, shape), c(type, shape);
    std::vector<double> before = g.product;
    const std::vector<double> shift = bias.values();
    for (std::size_t i = 0; i < before.size(); ++i) before[i] += shift[i % shift.size()];
    gemm(ctx.stream, ctx.scratch, c, g.left(), g.right(), GradMode::overwrite, {.bias = bias});
    CHECK(relative_rms(c, before) < rounding_of(type, kTolerance.reduction));
    for (const Activation activation : kActivations) {
      CAPTURE(static_cast<int>(activation));
      gemm(ctx.stream, ctx.scratch, c, g.left(), g.right(), GradMode::overwrite,
           {.bias = bias, .act = Epilogue::Act::forward, .activation = activation, .aux = aux});
      CHECK(relative_rms(aux, before) < rounding_of(type, kTolerance.reduction));
      CHECK(relative_rms(c, mapped(aux.values(), activation, reference_activation)) <
            rounding_of(type, kTolerance.elementwise));
      Owned dpre(type, shape), x = random_tensor(type, shape, 5);
      gemm(ctx.stream, ctx.scratch, dpre, g.left(), g.right(), GradMode::overwrite,
           {.act = Epilogue::Act::backward, .activation = activation, .aux = x});
      std::vector<double> expected = mapped(x.values(), activation, reference_activation_derivative);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= g.product[i];
      CHECK(relative_rms(dpre, expected) < 2 * rounding_of(type, kTolerance.reduction));  // may be rounded twice
    }
  };
  for_each_gemm(Orientations::two, [&](const GemmCase& g) {
    check(g, g.type);
    if (g.type != DType::f32) check(g, DType::f32);
  });
}

TEST_CASE("gemm: the activation reads aux as stored, rounded") {
  GemmContext ctx;
  for_each_gemm(Orientations::two, [&](const GemmCase& g) {
    if (g.type == DType::f32) return;
    Owned aux(g.type, {g.m, g.n}), c(g.type, {g.m, g.n});
    gemm(ctx.stream, ctx.scratch, c, g.left(), g.right(), GradMode::overwrite,
         {.act = Epilogue::Act::forward, .activation = Activation::squared_relu, .aux = aux});
    std::vector<double> expected;  // squares of 11 bits are exact in fp32: rounded once
    for (double x : aux.values()) {
      const auto square = static_cast<float>(x > 0 ? x * x : 0);
      with_float_type(g.type, [&]<class T>(T) { expected.push_back(double{widen(narrow<T>(square))}); });
    }
    CHECK(c.values() == expected);
  });
}

TEST_CASE("gemm: the bias gradient is the column sum of dy, with a mode and a dtype of its own") {
  GemmContext ctx;
  const auto check = [&](std::int64_t rows, std::int64_t width, GradMode mode, DType type, DType grads) {
    CAPTURE(rows);
    CAPTURE(width);
    CAPTURE(std::string(name_of(type)));
    CAPTURE(std::string(name_of(grads)));
    Owned dy = random_tensor(type, {rows, width}, 6), x = random_tensor(type, {rows, 5}, 7), dw(grads, {width, 5});
    Owned dbias = random_tensor(grads, {width}, 8);
    std::vector<double> expected(static_cast<std::size_t>(width), 0.0);
    if (mode == GradMode::accumulate) expected = dbias.values();
    const std::vector<double> values = dy.values();
    for (std::size_t i = 0; i < values.size(); ++i) expected[i % expected.size()] += values[i];
    gemm(ctx.stream, ctx.scratch, dw, transposed(dy), {x}, GradMode::accumulate, {.dbias = {dbias, mode}});
    CHECK(relative_rms(dbias, expected) < rounding_of(grads, kTolerance.reduction));
  };
  for (std::int64_t rows : {1, 3, 64, 65, 1031}) {
    for (std::int64_t width : {1, 7, 128, 300}) {
      for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        for (DType type : kGemmTypes) {
          check(rows, width, mode, type, DType::f32);
          if (type != DType::f32) check(rows, width, mode, type, type);
        }
      }
    }
  }
}

TEST_CASE("gemm: meta plans the scratch of a call to the byte, and no call keeps any") {
  const auto check = [](const GemmSize& size, DType type, DType c_type, GradMode mode, int threads) {
    CAPTURE(size.m);
    CAPTURE(std::string(name_of(type)));
    CAPTURE(std::string(name_of(c_type)));
    CAPTURE(threads);
    const auto [m, n, k] = size;
    Stream stream(kDevice, threads), counter(Device::meta, threads, kDevice);
    Arena plan(Device::meta, "scratch", 0);
    gemm(counter, plan, meta({m, n}, c_type), transposed(meta({k, m}, type)), {meta({k, n}, type)}, mode,
         {.dbias = {meta({m})}});
    Arena scratch(kDevice, "scratch", plan.peak());
    Owned dy = random_tensor(type, {k, m}, 6), x = random_tensor(type, {k, n}, 7), dw(c_type, {m, n}), dbias({m});
    std::vector<double> expected(static_cast<std::size_t>(m), 0.0);
    const std::vector<double> values = dy.values();
    for (std::size_t i = 0; i < values.size(); ++i) expected[i % expected.size()] += values[i];
    gemm(stream, scratch, dw, transposed(dy), {x}, mode, {.dbias = {dbias}});
    CHECK(relative_rms(dbias, expected) < kTolerance.reduction);
    CHECK(scratch.peak() == plan.peak());
    CHECK(scratch.used() == 0);
    CHECK(plan.used() == 0);
  };
  for (const GemmSize size : {GemmSize{300, 5, 1031}, {600, 530, 20}, {8, 8, 8}}) {
    for (DType type : kGemmTypes) {
      for (DType c_type : kGemmTypes) {
        for (int threads : {1, 2, 5}) {
          if (threads > 1 && device_has_tensor_cores()) break;  // GEMMs on a GPU do not use them
          check(size, type, c_type, GradMode::overwrite, threads);
          check(size, type, c_type, GradMode::accumulate, threads);
        }
      }
    }
  }
}

TEST_CASE("gemm: repeating a call produces the same bits, another number of threads the same sums") {
  for (DType type : kGemmTypes) {
    CAPTURE(std::string(name_of(type)));
    const GemmCase g{{700, 90, 530}, true, false, type};
    for (int threads : {1, 2, 5}) {
      CAPTURE(threads);
      Owned first(type, {g.m, g.n}), second(type, {g.m, g.n});
      std::map<std::string, std::string> choices;  // of algorithms on a GPU: measured again, they could differ
      for (const Owned* c : {&first, &second}) {
        Stream stream(kDevice, threads);
        stream.choices().add(choices);
        Arena scratch(kDevice, "scratch", 2 * kGemmScratch);
        gemm(stream, scratch, *c, g.left(), g.right());
        choices = stream.choices().table();
      }
      CHECK(same_bits(first, second));
      CHECK(relative_rms(first, g.product) < rounding_of(type, kTolerance.reduction));
    }
  }
}

TEST_CASE("gemm: an empty sum produces zeros, an empty output is not written") {
  GemmContext ctx;
  for (DType type : kGemmTypes) {
    CAPTURE(std::string(name_of(type)));
    Owned c = rounded(filled({3, 4}, 5), type), a(type, {3, 0}), b(type, {0, 4});
    gemm(ctx.stream, ctx.scratch, c, {a}, {b}, GradMode::accumulate);
    CHECK(c.values() == std::vector<double>(12, 5.0));
    Owned bias = rounded(filled({4}, 2), type), aux(type, {3, 4});
    gemm(ctx.stream, ctx.scratch, c, {a}, {b}, GradMode::overwrite, {.bias = bias});
    CHECK(c.values() == std::vector<double>(12, 2.0));
    gemm(ctx.stream, ctx.scratch, c, {a}, {b}, GradMode::overwrite,
         {.bias = bias, .act = Epilogue::Act::forward, .activation = Activation::squared_relu, .aux = aux});
    CHECK(aux.values() == std::vector<double>(12, 2.0));
    CHECK(c.values() == std::vector<double>(12, 4.0));
    Owned none(type, {0, 4}), no_rows(type, {0, 2}), right(type, {2, 4}), no_columns(type, {3, 0}), left(type, {3, 2}),
        empty(type, {2, 0});
    gemm(ctx.stream, ctx.scratch, none, {no_rows}, {right}, GradMode::overwrite, {.bias = bias});
    gemm(ctx.stream, ctx.scratch, no_columns, {left}, {empty});
  }
}

TEST_CASE("gemm: the epilogues produce the same bits with one thread and four") {
  Arena scratch(kDevice, "scratch", kGemmScratch);
  // With k = 1, each sum has a single term and the same bits no matter how the library divides the work.
  Owned a = random_tensor({150, 1}, 9), b = random_tensor({1, 700}, 10), bias = random_tensor({700}, 11);
  Owned one({150, 700}), four({150, 700}), aux({150, 700}), dw1({700, 700}), dw4({700, 700}), dbias1({700}),
      dbias4({700});
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  gemm(serial, scratch, one, {a}, {b}, GradMode::overwrite, {.bias = bias, .act = Epilogue::Act::forward, .aux = aux});
  serial.synchronize();
  parallel.choices().add(serial.choices().table());  // measured again, they could differ
  gemm(parallel, scratch, four, {a}, {b}, GradMode::overwrite,
       {.bias = bias, .act = Epilogue::Act::forward, .aux = aux});
  CHECK(same_bits(one, four));
  parallel.synchronize();  // both use the scratch memory
  gemm(serial, scratch, dw1, transposed(one), {one}, GradMode::overwrite, {.dbias = {dbias1, GradMode::overwrite}});
  serial.synchronize();
  parallel.choices().add(serial.choices().table());
  gemm(parallel, scratch, dw4, transposed(four), {four}, GradMode::overwrite, {.dbias = {dbias4, GradMode::overwrite}});
  CHECK(same_bits(dbias1, dbias4));
}

TEST_CASE("gemm: counts on meta without touching memory; wrong shapes and combinations throw") {
  Stream stream(Device::meta);
  Arena scratch(Device::meta, "scratch", 0);
  gemm(stream, scratch, meta({2, 3, 5}), {meta({2, 3, 7})}, transposed(meta({5, 7})), GradMode::overwrite,
       {.bias = meta({5})});
  CHECK(stream.counters().flops == 2.0 * 6 * 5 * 7);
  CHECK(stream.counters().bytes == 4.0 * (6 * 7 + 5 * 7 + 6 * 5 + 5));
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}), {meta({2, 4})}, {meta({5, 3})}), Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 4}), {meta({2, 4})}, {meta({4, 3})}), Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}, DType::f64), {meta({2, 4})}, {meta({4, 3})}), Error);
  CHECK_THROWS_WITH_AS(gemm(stream, scratch, meta({2, 3}), {meta({2, 4}, DType::bf16)}, {meta({4, 3})}),
                       "gemm: A is bfloat16, B float32; they must have the same dtype", Error);
  CHECK_THROWS_AS(gemm(stream, scratch, meta({2, 3}, DType::bf16), {meta({2, 4}, DType::bf16)},
                       {meta({4, 3}, DType::bf16)}, GradMode::overwrite, {.bias = meta({3})}),
                  Error);
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
