// LayerNorm, compared with its equations in fp64.
#include "kernels/layernorm.h"

#include "kernels/rmsnorm.h"

#include "tests/kernels/dropout_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr float kLayerNormEps = 1e-5f;

struct LayerNorm {
  std::int64_t rows, width;
  StreamTypes types = kStreamTypes[0];
  Owned x = random_tensor(types.stream, {rows, width}, 1, 2), gamma = random_tensor(types.compute, {width}, 2);
  Owned beta = random_tensor(types.compute, {width}, 3), dy = random_tensor(types.compute, {rows, width}, 4);
  Owned y{types.compute, Shape{rows, width}}, mean{Shape{rows}}, rstd{Shape{rows}};
  LayerNormCache cache() const { return {x, mean, rstd}; }
  void forward(int threads = 2) const {
    Stream stream(kDevice, threads);
    layernorm_forward(stream, y, cache(), gamma, beta, kLayerNormEps);
  }
};

struct LayerNormReference {
  std::vector<double> y, dx, dgamma, dbeta;
};

LayerNormReference layernorm_reference(const LayerNorm& n) {
  LayerNormReference out;
  out.dgamma.resize(static_cast<std::size_t>(n.width));
  out.dbeta.resize(static_cast<std::size_t>(n.width));
  const auto width = static_cast<double>(n.width);
  const std::vector<double> x = n.x.values(), dy = n.dy.values(), gamma = n.gamma.values(), beta = n.beta.values();
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const auto at = [&](const std::vector<double>& t, std::int64_t i) {
      return t[static_cast<std::size_t>(row * n.width + i)];
    };
    double mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
    for (std::int64_t i = 0; i < n.width; ++i) mean += at(x, i) / width;
    for (std::int64_t i = 0; i < n.width; ++i) variance += (at(x, i) - mean) * (at(x, i) - mean) / width;
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(kLayerNormEps));
    const auto x_hat = [&](std::int64_t i) { return (at(x, i) - mean) * rstd; };
    const auto g = [&](std::int64_t i) { return at(dy, i) * gamma[static_cast<std::size_t>(i)]; };
    for (std::int64_t i = 0; i < n.width; ++i) {
      mean_g += g(i) / width;
      mean_gx += g(i) * x_hat(i) / width;
      out.dgamma[static_cast<std::size_t>(i)] += at(dy, i) * x_hat(i);
      out.dbeta[static_cast<std::size_t>(i)] += at(dy, i);
      out.y.push_back(x_hat(i) * gamma[static_cast<std::size_t>(i)] + beta[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t i = 0; i < n.width; ++i) out.dx.push_back(rstd * (g(i) - mean_g - x_hat(i) * mean_gx));
  }
  return out;
}

void check_layernorm(const LayerNorm& n, GradMode mode, DType grads) {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 4 << 20);
  n.forward();
  LayerNormReference expected = layernorm_reference(n);
  CHECK(relative_rms(n.y, expected.y) < rounding_of(n.types.compute, kTolerance.elementwise));
  Owned dx = random_tensor(n.types.stream, {n.rows, n.width}, 9);
  Owned dgamma = random_tensor(grads, {n.width}, 6), dbeta = random_tensor(grads, {n.width}, 7);
  Owned dbias = random_tensor(grads, {n.width}, 8);
  std::vector<double> bias_sums = dbias.values();
  const bool adds = mode == GradMode::accumulate;
  if (adds) {
    const std::vector<double> skip = dx.values();
    for (std::size_t i = 0; i < skip.size(); ++i) bias_sums[i % bias_sums.size()] += skip[i];
    add_to(expected.dx, skip);
    add_to(expected.dgamma, dgamma.values());
    add_to(expected.dbeta, dbeta.values());
  }
  const StreamGrad to_x = adds ? StreamGrad{dx, dx, {dbias, mode}} : StreamGrad{dx};
  layernorm_backward(stream, scratch, to_x, {dgamma, mode}, {dbeta, mode}, n.dy, n.cache(), n.gamma);
  CHECK(relative_rms(dx, expected.dx) < rounding_of(n.types.stream, kTolerance.reduction));
  CHECK(relative_rms(dgamma, expected.dgamma) < rounding_of(grads, kTolerance.reduction));
  CHECK(relative_rms(dbeta, expected.dbeta) < rounding_of(grads, kTolerance.reduction));
  CHECK(relative_rms(dbias, bias_sums) < rounding_of(grads, kTolerance.reduction));
}

/// Checks that the fused operator equals the two separate operators: in place and not, with one and with multiple
/// threads.
void check_layernorm_sum(const LayerNorm& n, const Dropout& dropout) {
  const Shape shape{n.rows, n.width};
  const RowMap map{samples_from(7), 3, 16};
  const Owned branch = random_tensor(n.types.compute, shape, 8), bias = random_tensor(n.types.compute, {n.width}, 9);
  for (const bool has_bias : {false, true}) {
    for (const bool in_place : {false, true}) {
      const Owned residual = random_tensor(n.types.stream, shape, 10);
      Stream one(kDevice, 1), several(kDevice, 3);
      const ResidualSum sum{residual, branch, has_bias ? bias.tensor() : Tensor(), dropout, map};
      residual_forward(one, n.x, sum);
      one.synchronize();
      n.forward();
      const Owned x(n.types.stream, shape), y(n.types.compute, shape), mean({n.rows}), rstd({n.rows});
      const Tensor out = in_place ? residual.tensor() : x.tensor();
      layernorm_forward(has_bias ? several : one, y, {out, mean, rstd}, n.gamma, n.beta, kLayerNormEps, sum);
      CHECK(same_bits(out, n.x));
      CHECK(same_bits(y, n.y));
      CHECK(same_bits(mean, n.mean));
      CHECK(same_bits(rstd, n.rstd));
    }
  }
}

}  // namespace

TEST_CASE("layernorm: forward and backward equal the fp64 reference, overwriting and accumulating, in every dtype") {
  std::size_t number = 0;
  for (const auto& [rows, width] : kNormSizes) {
    for (const StreamTypes types : kStreamTypes) {
      CAPTURE(rows);
      CAPTURE(width);
      CAPTURE(std::string(name_of(types.stream)));
      CAPTURE(std::string(name_of(types.compute)));
      const LayerNorm n{rows, width, types};
      for (const auto& [mode, grads] : grad_kinds(number, types.compute)) check_layernorm(n, mode, grads);
    }
    ++number;
  }
}

TEST_CASE("layernorm: more rows than a device processes at a time equal the fp64 reference") {
  check_layernorm({140003, 3}, GradMode::accumulate, DType::f32);
}

TEST_CASE("layernorm: no rows produce gradients of 0") {
  const LayerNorm n{0, 24};
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  const Owned dx({0, 24}), dgamma = filled({24}, 1), dbeta = filled({24}, 1);
  layernorm_backward(stream, scratch, {dx}, {dgamma}, {dbeta}, n.dy, n.cache(), n.gamma);
  CHECK(dgamma.values() == std::vector<double>(24, 0.0));
  CHECK(dbeta.values() == std::vector<double>(24, 0.0));
}

TEST_CASE("layernorm: one gradient alone has the same bits") {
  const LayerNorm n{70, 520};
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 4 << 20);
  const Owned dgamma({520}), dbeta({520}), dgamma_alone({520}), dbeta_alone(DType::bf16, {520}),
      dbeta_bf16(DType::bf16, {520});
  layernorm_backward(stream, scratch, {}, {dgamma}, {dbeta}, n.dy, n.cache(), n.gamma);
  layernorm_backward(stream, scratch, {}, {dgamma_alone}, {}, n.dy, n.cache(), n.gamma);
  CHECK(same_bits(dgamma, dgamma_alone));
  layernorm_backward(stream, scratch, {}, {dgamma_alone}, {dbeta_bf16}, n.dy, n.cache(), n.gamma);
  CHECK(same_bits(dgamma, dgamma_alone));
  layernorm_backward(stream, scratch, {}, {}, {dbeta_alone}, n.dy, n.cache(), n.gamma);
  CHECK(same_bits(dbeta_alone, dbeta_bf16));
  CHECK(same_bits(dbeta_alone, rounded(dbeta, DType::bf16)));
}

TEST_CASE("layernorm: a row of one value produces beta and no gradient") {
  LayerNorm n{3, 1};
  n.forward();
  CHECK(n.y[2] == n.beta[0]);
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx({3, 1});
  layernorm_backward(stream, scratch, {dx}, {}, {}, n.dy, n.cache(), n.gamma);
  CHECK(std::abs(dx[1]) < 1e-4f);
}

TEST_CASE("layernorm: dx over dy, x and skip produce the bits of separate tensors") {
  for (const auto& [rows, width] : {std::pair{37, 75}, {3, 2056}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Shape shape{rows, width};
      LayerNorm n{rows, width, {dtype, dtype}};
      n.forward();
      Stream stream(kDevice);
      Arena scratch(kDevice, "scratch", 1 << 18);
      const Owned dx(dtype, shape), skip = random_tensor(dtype, shape, 5), dbias({width}), dbias_over_skip({width});
      layernorm_backward(stream, scratch, {dx, skip}, {}, {}, n.dy, n.cache(), n.gamma);
      Owned over_skip = random_tensor(dtype, shape, 5), over_dy = random_tensor(dtype, shape, 4);
      layernorm_backward(stream, scratch, {over_skip, over_skip, {dbias_over_skip}}, {}, {}, n.dy, n.cache(), n.gamma);
      CHECK(same_bits(dx, over_skip));
      layernorm_backward(stream, scratch, {over_skip, skip, {dbias}}, {}, {}, n.dy, n.cache(), n.gamma);
      CHECK(same_bits(dx, over_skip));
      CHECK(same_bits(dbias, dbias_over_skip));
      layernorm_backward(stream, scratch, {over_dy, skip}, {}, {}, over_dy, n.cache(), n.gamma);
      CHECK(same_bits(dx, over_dy));
      layernorm_backward(stream, scratch, {n.x, skip}, {}, {}, n.dy, n.cache(), n.gamma);
      CHECK(same_bits(dx, n.x));
    }
  }
}

TEST_CASE(
    "layernorm and rmsnorm: a bias gets the gradient that residual_backward() gives it, on the CPU the same bits") {
  for (const std::int64_t width : {259, 8200}) {
    for (const StreamTypes types : kStreamTypes) {
      const Shape shape{70, width};
      LayerNorm n{70, width, types};
      n.forward();
      Stream stream(kDevice, 2);
      Arena scratch(kDevice, "scratch", 32 << 20);
      const Owned dx(types.stream, shape), skip = random_tensor(types.stream, shape, 5), expected({width});
      residual_backward(stream, scratch, {}, {expected}, skip, {}, {});
      for (const bool has_mean : {true, false}) {
        const Owned dgamma({width}), dbias({width});
        const StreamGrad to_x{dx, skip, {dbias}};
        if (has_mean)
          layernorm_backward(stream, scratch, to_x, {dgamma}, {}, n.dy, n.cache(), n.gamma);
        else
          rmsnorm_backward(stream, scratch, to_x, {dgamma}, n.dy, {n.x, n.rstd}, n.gamma);
        if (kDevice == Device::cpu) CHECK(same_bits(dbias, expected));
        CHECK(relative_rms(dbias, expected.values()) < kTolerance.reduction);
      }
    }
  }
}

TEST_CASE("layernorm: gradients equal finite differences") {
  LayerNorm n{4, 19};
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx({4, 19}), dgamma({19}), dbeta({19});
  layernorm_backward(stream, scratch, {dx}, {dgamma}, {dbeta}, n.dy, n.cache(), n.gamma);
  const auto loss = [&] {
    n.forward();
    return weighted_sum(n.dy, n.y);
  };
  CHECK(relative_rms(dx, finite_differences(n.x, loss)) < kTolerance.difference);
  CHECK(relative_rms(dgamma, finite_differences(n.gamma, loss)) < kTolerance.difference);
  CHECK(relative_rms(dbeta, finite_differences(n.beta, loss)) < kTolerance.difference);
}

TEST_CASE("layernorm: one thread and four produce the same bits") {
  LayerNorm serial{515, 259}, parallel{515, 259};
  serial.forward(1);
  parallel.forward(4);
  CHECK(same_bits(serial.y, parallel.y));
  std::vector<Owned> grads[2];
  for (int run = 0; run < 2; ++run) {
    Stream stream(kDevice, run == 0 ? 1 : 4);
    Arena scratch(kDevice, "scratch", 4 << 20);
    for (Shape shape : {Shape{515, 259}, Shape{259}, Shape{259}}) grads[run].emplace_back(shape);
    layernorm_backward(stream, scratch, {grads[run][0]}, {grads[run][1]}, {grads[run][2]}, serial.dy, serial.cache(),
                       serial.gamma);
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(grads[0][i], grads[1][i]));
}

TEST_CASE("layernorm: meta counts the scratch and bytes of a real run; wrong shapes throw") {
  LayerNorm n{100, 32};
  n.forward();
  Stream real(kDevice), counted(Device::meta, 1, kDevice);
  Arena real_scratch(kDevice, "scratch", 1 << 16), counted_scratch(Device::meta, "scratch", 0);
  Owned dx({100, 32}), dgamma({32}), dbeta({32});
  layernorm_backward(real, real_scratch, {dx}, {dgamma}, {dbeta}, n.dy, n.cache(), n.gamma);
  const LayerNormCache cache{meta({100, 32}), meta({100}), meta({100})};
  layernorm_backward(counted, counted_scratch, {meta({100, 32})}, {meta({32})}, {meta({32})}, meta({100, 32}), cache,
                     meta({32}));
  CHECK(real_scratch.peak() == counted_scratch.peak());
  CHECK(counted_scratch.peak() > 0);
  CHECK(real.counters().bytes == counted.counters().bytes);
  CHECK(counted_scratch.used() == 0);
  layernorm_backward(real, real_scratch, {dx, dx, {dbeta}}, {dgamma}, {}, n.dy, n.cache(), n.gamma);
  layernorm_backward(counted, counted_scratch, {meta({100, 32}), meta({100, 32}), {meta({32})}}, {meta({32})}, {},
                     meta({100, 32}), cache, meta({32}));
  CHECK(real_scratch.peak() == counted_scratch.peak());
  CHECK_THROWS_WITH_AS(layernorm_backward(counted, counted_scratch, {meta({100, 32}), {}, {meta({32})}}, {}, {},
                                          meta({100, 32}), cache, meta({32})),
                       doctest::Contains("without a skip gradient"), Error);
  CHECK_THROWS_AS(layernorm_forward(counted, meta({100, 32}), cache, meta({31}), meta({32}), kLayerNormEps), Error);
  CHECK_THROWS_AS(layernorm_forward(counted, meta({99, 32}), cache, meta({32}), meta({32}), kLayerNormEps), Error);
  LayerNormCache narrow = cache;
  narrow.x = meta({100, 32}, DType::bf16);  // fp32 layers need an fp32 residual stream
  CHECK_THROWS_AS(layernorm_forward(counted, meta({100, 32}), narrow, meta({32}), meta({32}), kLayerNormEps), Error);
  CHECK_THROWS_AS(
      layernorm_backward(counted, counted_scratch, {meta({100, 31})}, {}, {}, meta({100, 32}), cache, meta({32})),
      Error);
}

TEST_CASE("layernorm: with a sum of residual and branch it equals residual_forward before it, bit for bit") {
  using Size = std::pair<std::int64_t, std::int64_t>;
  for (auto [rows, width] : {Size{1, 3}, {64, 768}, {35, 1031}, {700, 40}, {5, 1600}, {3, 2056}, {2, 2501}}) {
    for (const StreamTypes types : kStreamTypes) {
      for (const float probability : {0.0f, 0.1f}) {
        CAPTURE(rows);
        CAPTURE(width);
        CAPTURE(std::string(name_of(types.stream)));
        CAPTURE(std::string(name_of(types.compute)));
        check_layernorm_sum({rows, width, types}, {probability, {1234, 56}});
      }
    }
  }
}

TEST_CASE("layernorm: a sum counts its operands on meta, and mismatched ones throw") {
  Stream counted(Device::meta, 1, kDevice);
  const Tensor wide = meta({6, 4}), narrow = meta({6, 4}, DType::bf16), gamma = meta({4}, DType::bf16);
  const auto forward = [&](const ResidualSum& sum) {
    layernorm_forward(counted, narrow, {wide, meta({6}), meta({6})}, gamma, gamma, kLayerNormEps, sum);
  };
  forward({wide, narrow, gamma, {}, {}});
  const double with_sum = counted.counters().bytes;
  counted.reset_counters();
  forward({});
  CHECK(with_sum == counted.counters().bytes + 24 * (4 + 2) + 4 * 2);
  CHECK_THROWS_AS(forward({narrow, narrow, gamma, {}, {}}), Error);
  CHECK_THROWS_AS(forward({wide, wide, {}, {}, {}}), Error);
  CHECK_THROWS_AS(forward({wide, narrow, meta({4}), {}, {}}), Error);
  CHECK_THROWS_AS(forward({meta({5, 4}), narrow, {}, {}, {}}), Error);
  CHECK_THROWS_AS(forward({wide, meta({6, 5}, DType::bf16), {}, {}, {}}), Error);
}
