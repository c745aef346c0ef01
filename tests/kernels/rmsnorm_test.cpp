// RMSNorm, compared with its equations in fp64.
#include "kernels/rmsnorm.h"

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/rmsnorm_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct RmsNorm {
  std::int64_t rows, width;
  StreamTypes types = kStreamTypes[0];
  Owned x = random_tensor(types.stream, {rows, width}, 1, 2), gamma = random_tensor(types.compute, {width}, 2);
  Owned dy = random_tensor(types.compute, {rows, width}, 4), y{types.compute, Shape{rows, width}}, rstd{Shape{rows}};
  RmsNormCache cache() const { return {x, rstd}; }
  void forward(int threads = 2) const {
    Stream stream(kDevice, threads);
    rmsnorm_forward(stream, y, cache(), gamma, kRmsNormEps);
  }
  RmsNormReference reference() const {
    RmsNormReference out(static_cast<std::size_t>(width));
    const std::vector<double> xs = x.values(), dys = dy.values(), gammas = gamma.values();
    for (std::int64_t row = 0; row < rows; ++row)
      out.add_row(xs.data() + row * width, dys.data() + row * width, gammas.data());
    return out;
  }
};

void check_rmsnorm(const RmsNorm& n, GradMode mode, DType grads) {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 4 << 20);
  n.forward();
  RmsNormReference expected = n.reference();
  CHECK(relative_rms(n.y, expected.y) < rounding_of(n.types.compute, kTolerance.elementwise));
  CHECK(relative_rms(n.rstd, expected.rstd) < kTolerance.elementwise);
  Owned dx = random_tensor(n.types.stream, {n.rows, n.width}, 5), dgamma = random_tensor(grads, {n.width}, 6);
  if (mode == GradMode::accumulate) {
    add_to(expected.dx, dx.values());
    add_to(expected.dgamma, dgamma.values());
  }
  const Tensor skip = mode == GradMode::accumulate ? dx.tensor() : Tensor();
  rmsnorm_backward(stream, scratch, {dx, skip}, {dgamma, mode}, n.dy, n.cache(), n.gamma);
  CHECK(relative_rms(dx, expected.dx) < rounding_of(n.types.stream, kTolerance.reduction));
  CHECK(relative_rms(dgamma, expected.dgamma) < rounding_of(grads, kTolerance.reduction));
}

/// Checks that the fused operator equals the two separate operators: in place and not, with one and with multiple
/// threads.
void check_rmsnorm_sum(const RmsNorm& n, const Dropout& dropout) {
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
      const Owned x(n.types.stream, shape), y(n.types.compute, shape), rstd({n.rows});
      const Tensor out = in_place ? residual.tensor() : x.tensor();
      rmsnorm_forward(has_bias ? several : one, y, {out, rstd}, n.gamma, kRmsNormEps, sum);
      CHECK(same_bits(out, n.x));
      CHECK(same_bits(y, n.y));
      CHECK(same_bits(rstd, n.rstd));
    }
  }
}

}  // namespace

TEST_CASE("rmsnorm: forward and backward equal the fp64 reference, overwriting and accumulating, in every dtype") {
  std::size_t number = 0;
  for (const auto& [rows, width] : kNormSizes) {
    for (const StreamTypes types : kStreamTypes) {
      CAPTURE(rows);
      CAPTURE(width);
      CAPTURE(std::string(name_of(types.stream)));
      CAPTURE(std::string(name_of(types.compute)));
      const RmsNorm n{rows, width, types};
      for (const auto& [mode, grads] : grad_kinds(number, types.compute)) check_rmsnorm(n, mode, grads);
    }
    ++number;
  }
}

TEST_CASE("rmsnorm: more rows than a device processes at a time equal the fp64 reference") {
  check_rmsnorm({140003, 3}, GradMode::accumulate, DType::f32);
}

TEST_CASE("rmsnorm: a row of one value produces gamma times the value's sign, and a gradient close to 0") {
  RmsNorm n{3, 1};
  n.forward();
  const RmsNormReference expected = n.reference();
  CHECK(relative_rms(n.y, expected.y) < kTolerance.elementwise);
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx({3, 1});
  rmsnorm_backward(stream, scratch, {dx}, {}, n.dy, n.cache(), n.gamma);
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(std::abs(double{dx[i]} - expected.dx[i]) < 1e-6);  // a difference of equal terms
}

TEST_CASE("rmsnorm: a row of zeros produces zeros and finite gradients") {
  RmsNorm n{2, 40};
  std::fill_n(n.x.begin(), 40, 0.0f);
  n.forward();
  CHECK(n.y[17] == 0);
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx({2, 40}), dgamma({40});
  rmsnorm_backward(stream, scratch, {dx}, {dgamma}, n.dy, n.cache(), n.gamma);
  const RmsNormReference expected = n.reference();
  CHECK(relative_rms(dx, expected.dx) < kTolerance.reduction);
  CHECK(relative_rms(dgamma, expected.dgamma) < kTolerance.reduction);
}

TEST_CASE("rmsnorm: only one gradient, dx over dy, x and skip, and y over x produce the bits of separate tensors") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    RmsNorm n{37, 75, {dtype, dtype}};
    n.forward();
    Stream stream(kDevice);
    Arena scratch(kDevice, "scratch", 1 << 16);
    Owned dx(dtype, {37, 75}), dgamma({75}), dx_alone(dtype, {37, 75}), dgamma_alone({75});
    rmsnorm_backward(stream, scratch, {dx}, {dgamma}, n.dy, n.cache(), n.gamma);
    rmsnorm_backward(stream, scratch, {dx_alone}, {}, n.dy, n.cache(), n.gamma);
    rmsnorm_backward(stream, scratch, {}, {dgamma_alone}, n.dy, n.cache(), n.gamma);
    CHECK(same_bits(dx, dx_alone));
    CHECK(same_bits(dgamma, dgamma_alone));
    Owned in_place = random_tensor(dtype, {37, 75}, 4);
    rmsnorm_backward(stream, scratch, {in_place}, {dgamma_alone}, in_place, n.cache(), n.gamma);
    CHECK(same_bits(dx, in_place));
    CHECK(same_bits(dgamma, dgamma_alone));
    Owned y = random_tensor(dtype, {37, 75}, 1, 2);
    rmsnorm_forward(stream, y, {y, n.rstd}, n.gamma, kRmsNormEps);
    CHECK(same_bits(y, n.y));
    const Owned sum(dtype, {37, 75}), skip = random_tensor(dtype, {37, 75}, 5);
    Owned over_skip = random_tensor(dtype, {37, 75}, 5);
    rmsnorm_backward(stream, scratch, {sum, skip}, {}, n.dy, n.cache(), n.gamma);
    rmsnorm_backward(stream, scratch, {over_skip, over_skip}, {}, n.dy, n.cache(), n.gamma);
    CHECK(same_bits(sum, over_skip));
    rmsnorm_backward(stream, scratch, {n.x, skip}, {dgamma_alone}, n.dy, n.cache(), n.gamma);
    CHECK(same_bits(sum, n.x));
    CHECK(same_bits(dgamma, dgamma_alone));
  }
}

TEST_CASE("rmsnorm: y over x and dx over dy of another dtype throw") {
  const RmsNorm n{3, 8, {DType::f32, DType::bf16}};
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  const Tensor y(n.x.tensor().raw(), DType::bf16, {3, 8}), dy(n.x.tensor().raw(), DType::bf16, {3, 8});
  CHECK_THROWS_WITH_AS(rmsnorm_forward(stream, y, n.cache(), n.gamma, kRmsNormEps), doctest::Contains("in place"),
                       Error);
  CHECK_THROWS_WITH_AS(rmsnorm_backward(stream, scratch, {n.x}, {}, dy, n.cache(), n.gamma),
                       doctest::Contains("in place"), Error);
}

TEST_CASE("rmsnorm: gradients equal finite differences") {
  RmsNorm n{4, 19};
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx({4, 19}), dgamma({19});
  rmsnorm_backward(stream, scratch, {dx}, {dgamma}, n.dy, n.cache(), n.gamma);
  const auto loss = [&] {
    n.forward();
    return weighted_sum(n.dy, n.y);
  };
  CHECK(relative_rms(dx, finite_differences(n.x, loss)) < kTolerance.difference);
  CHECK(relative_rms(dgamma, finite_differences(n.gamma, loss)) < kTolerance.difference);
}

TEST_CASE("rmsnorm: one thread and four produce the same bits") {
  RmsNorm serial{515, 259}, parallel{515, 259};
  serial.forward(1);
  parallel.forward(4);
  CHECK(same_bits(serial.y, parallel.y));
  Owned dx[] = {Owned({515, 259}), Owned({515, 259})}, dgamma[] = {Owned({259}), Owned({259})};
  for (int run = 0; run < 2; ++run) {
    Stream stream(kDevice, run == 0 ? 1 : 4);
    Arena scratch(kDevice, "scratch", 4 << 20);
    rmsnorm_backward(stream, scratch, {dx[run]}, {dgamma[run]}, serial.dy, serial.cache(), serial.gamma);
  }
  CHECK(same_bits(dx[0], dx[1]));
  CHECK(same_bits(dgamma[0], dgamma[1]));
}

TEST_CASE("rmsnorm: meta counts the scratch and bytes of a real run; wrong shapes throw") {
  RmsNorm n{100, 32};
  Stream real(kDevice), counted(Device::meta, 1, kDevice);
  Arena real_scratch(kDevice, "scratch", 1 << 16), counted_scratch(Device::meta, "scratch", 0);
  Owned dx({100, 32}), dgamma({32});
  const RmsNormCache cache{meta({100, 32}), meta({100})};
  rmsnorm_forward(real, n.y, n.cache(), n.gamma, kRmsNormEps);
  rmsnorm_backward(real, real_scratch, {dx}, {dgamma}, n.dy, n.cache(), n.gamma);
  rmsnorm_forward(counted, meta({100, 32}), cache, meta({32}), kRmsNormEps);
  rmsnorm_backward(counted, counted_scratch, {meta({100, 32})}, {meta({32})}, meta({100, 32}), cache, meta({32}));
  CHECK(real_scratch.peak() == counted_scratch.peak());
  CHECK(counted_scratch.peak() > 0);
  CHECK(real.counters().bytes == counted.counters().bytes);
  CHECK(real.counters().bytes > 0);
  CHECK(counted_scratch.used() == 0);
  CHECK_THROWS_AS(rmsnorm_forward(counted, meta({100, 32}), cache, meta({31}), kRmsNormEps), Error);
  CHECK_THROWS_AS(rmsnorm_forward(counted, meta({99, 32}), cache, meta({32}), kRmsNormEps), Error);
  CHECK_THROWS_AS(rmsnorm_forward(counted, meta({0, 0}), {meta({0, 0}), meta({0})}, meta({0}), kRmsNormEps), Error);
  CHECK_THROWS_AS(rmsnorm_backward(counted, counted_scratch, {meta({100, 31})}, {}, meta({100, 32}), cache, meta({32})),
                  Error);
  CHECK_THROWS_AS(
      rmsnorm_backward(counted, counted_scratch, {cache.x, meta({99, 32})}, {}, meta({100, 32}), cache, meta({32})),
      Error);
  CHECK_THROWS_AS(rmsnorm_backward(counted, counted_scratch, {}, {meta({31})}, meta({100, 32}), cache, meta({32})),
                  Error);
  const Tensor narrow = meta({100, 32}, DType::bf16), wide = meta({100, 32}), gamma = meta({32}, DType::bf16);
  CHECK_THROWS_AS(rmsnorm_forward(counted, wide, {narrow, meta({100})}, meta({32}), kRmsNormEps), Error);
  CHECK_THROWS_AS(rmsnorm_forward(counted, narrow, {wide, meta({100})}, meta({32}), kRmsNormEps), Error);
  CHECK_THROWS_AS(rmsnorm_backward(counted, counted_scratch, {narrow}, {}, narrow, {wide, meta({100})}, gamma), Error);
  counted.reset_counters();
  rmsnorm_forward(counted, narrow, {wide, meta({100})}, gamma, kRmsNormEps);
  rmsnorm_backward(counted, counted_scratch, {wide, wide}, {}, narrow, {wide, meta({100})}, gamma);
  CHECK(counted.counters().bytes == 3200 * (4 + 2) + 400 + 64 + 3200 * (2 + 3 * 4));
}

TEST_CASE("rmsnorm: with a sum of residual and branch it equals residual_forward before it, bit for bit") {
  using Size = std::pair<std::int64_t, std::int64_t>;
  for (auto [rows, width] : {Size{1, 3}, {64, 768}, {35, 1031}, {700, 40}, {3, 2056}, {2, 2501}}) {
    for (const StreamTypes types : kStreamTypes) {
      for (const float probability : {0.0f, 0.1f}) {
        CAPTURE(rows);
        CAPTURE(width);
        CAPTURE(std::string(name_of(types.stream)));
        CAPTURE(std::string(name_of(types.compute)));
        check_rmsnorm_sum({rows, width, types}, {probability, {1234, 56}});
      }
    }
  }
}

TEST_CASE("rmsnorm: a sum counts its operands on meta, and mismatched ones throw") {
  Stream counted(Device::meta, 1, kDevice);
  const Tensor wide = meta({6, 4}), narrow = meta({6, 4}, DType::bf16), gamma = meta({4}, DType::bf16);
  const auto forward = [&](const ResidualSum& sum) {
    rmsnorm_forward(counted, narrow, {wide, meta({6})}, gamma, kRmsNormEps, sum);
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
