// RMSNorm over heads, compared with its equations in fp64.
#include "kernels/head_norm.h"

#include "tests/kernels/rmsnorm_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct HeadNormCase {
  std::int64_t batch, length, groups, heads, dim, first, count;
};

const HeadNormCase kHeadNormCases[] = {
    {1, 1, 1, 1, 3, 0, 1},   {2, 3, 2, 4, 5, 1, 2},   {1, 7, 1, 3, 128, 2, 1},
    {2, 33, 3, 6, 64, 0, 4}, {3, 50, 1, 5, 33, 0, 5},
};

/// x is heads [first, first + count) in a packed tensor; y is a separate tensor with the same number of heads.
struct HeadNorm {
  explicit HeadNorm(const HeadNormCase& shape, DType type = DType::f32) : c(shape), dtype(type) {}
  HeadNormCase c;
  DType dtype;
  Shape packed{c.batch, c.length, c.groups, c.heads, c.dim}, separate{c.batch, c.length, c.groups, c.count, c.dim};
  Owned x = random_tensor(dtype, packed, 1, 2), gamma = random_tensor(dtype, {c.dim}, 2);
  Owned dy = random_tensor(dtype, separate, 3), y{dtype, separate}, rstd{Shape{c.batch, c.length, c.groups, c.count}};

  HeadSlice of_packed(const Owned& tensor) const { return {tensor, c.first, c.count}; }
  HeadSlice of_separate(const Owned& tensor) const { return {tensor, 0, c.count}; }
  void forward(int threads = 2) const {
    Stream stream(kDevice, threads);
    head_norm_forward(stream, of_separate(y), rstd, of_packed(x), gamma, kRmsNormEps);
  }
  RmsNormReference reference() const {
    RmsNormReference out(static_cast<std::size_t>(c.dim));
    const std::vector<double> xs = x.values(), dys = dy.values(), gammas = gamma.values();
    for (std::int64_t row = 0; row < rstd.numel(); ++row) {
      const std::int64_t in_packed = row / c.count * c.heads + c.first + row % c.count;
      out.add_row(xs.data() + in_packed * c.dim, dys.data() + row * c.dim, gammas.data());
    }
    return out;
  }
  /// Returns the elements inside the slice, or those outside it, which operators must not touch.
  std::vector<double> part_of(const Owned& tensor, bool inside) const {
    const std::vector<double> values = tensor.values();
    std::vector<double> part;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      const std::int64_t head = i / c.dim % c.heads;
      if ((head >= c.first && head < c.first + c.count) == inside) part.push_back(values[static_cast<std::size_t>(i)]);
    }
    return part;
  }
};

void check_head_norm(const HeadNorm& n, GradMode mode, DType grads) {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 4 << 20);
  n.forward();
  RmsNormReference expected = n.reference();
  CHECK(relative_rms(n.y, expected.y) < rounding_of(n.dtype, kTolerance.elementwise));
  CHECK(relative_rms(n.rstd, expected.rstd) < kTolerance.elementwise);
  Owned dx = random_tensor(n.dtype, n.packed, 5), dgamma = random_tensor(grads, {n.c.dim}, 6);
  const std::vector<double> outside = n.part_of(dx, false);
  if (mode == GradMode::accumulate) add_to(expected.dgamma, dgamma.values());
  head_norm_backward(stream, scratch, n.of_packed(dx), {dgamma, mode}, n.of_separate(n.dy), n.of_packed(n.x), n.rstd,
                     n.gamma);
  CHECK(rms_relative(n.part_of(dx, true).data(), expected.dx) < rounding_of(n.dtype, kTolerance.reduction));
  CHECK(n.part_of(dx, false) == outside);
  CHECK(relative_rms(dgamma, expected.dgamma) < rounding_of(grads, kTolerance.reduction));
}

}  // namespace

TEST_CASE("head_norm: forward and backward equal the fp64 reference, overwriting and accumulating, in every dtype") {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      CAPTURE(std::string(name_of(dtype)));
      for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        check_head_norm(HeadNorm(c, dtype), mode, DType::f32);
        check_head_norm(HeadNorm(c, dtype), mode, dtype);
      }
    }
  }
}

TEST_CASE("head_norm: in place, without rstd and without dgamma it produces the bits of separate tensors") {
  HeadNorm n({.batch = 2, .length = 19, .groups = 2, .heads = 5, .dim = 24, .first = 1, .count = 3});
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx(n.separate), dgamma({24}), dx_alone(n.separate), dgamma_in_place({24});
  head_norm_backward(stream, scratch, n.of_separate(dx), {dgamma}, n.of_separate(n.dy), n.of_packed(n.x), n.rstd,
                     n.gamma);
  head_norm_backward(stream, scratch, n.of_separate(dx_alone), {}, n.of_separate(n.dy), n.of_packed(n.x), n.rstd,
                     n.gamma);
  CHECK(same_bits(dx, dx_alone));
  head_norm_backward(stream, scratch, n.of_separate(n.dy), {dgamma_in_place}, n.of_separate(n.dy), n.of_packed(n.x),
                     n.rstd, n.gamma);
  CHECK(same_bits(dx, n.dy));
  CHECK(same_bits(dgamma, dgamma_in_place));
  const std::vector<double> outside = n.part_of(n.x, false);
  head_norm_forward(stream, n.of_packed(n.x), {}, n.of_packed(n.x), n.gamma, kRmsNormEps);
  CHECK(std::ranges::equal(n.part_of(n.x, true), n.y.values()));
  CHECK(n.part_of(n.x, false) == outside);
}

TEST_CASE("head_norm: gradients equal finite differences") {
  HeadNorm n({.batch = 1, .length = 3, .groups = 2, .heads = 3, .dim = 7, .first = 0, .count = 2});
  n.forward();
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dx = filled(n.packed, 0), dgamma({7});
  head_norm_backward(stream, scratch, n.of_packed(dx), {dgamma}, n.of_separate(n.dy), n.of_packed(n.x), n.rstd,
                     n.gamma);
  const auto loss = [&] {
    n.forward();
    return weighted_sum(n.dy, n.y);
  };
  CHECK(relative_rms(dx, finite_differences(n.x, loss)) < kTolerance.difference);
  CHECK(relative_rms(dgamma, finite_differences(n.gamma, loss)) < kTolerance.difference);
}

TEST_CASE("head_norm: one thread and four produce the same bits") {
  HeadNorm serial({.batch = 3, .length = 67, .groups = 2, .heads = 6, .dim = 48, .first = 1, .count = 4});
  HeadNorm parallel(serial.c);
  serial.forward(1);
  parallel.forward(4);
  CHECK(same_bits(serial.y, parallel.y));
  CHECK(same_bits(serial.rstd, parallel.rstd));
  Owned dx[] = {Owned(serial.separate), Owned(serial.separate)}, dgamma[] = {Owned({48}), Owned({48})};
  for (int run = 0; run < 2; ++run) {
    Stream stream(kDevice, run == 0 ? 1 : 4);
    Arena scratch(kDevice, "scratch", 1 << 20);
    head_norm_backward(stream, scratch, serial.of_separate(dx[run]), {dgamma[run]}, serial.of_separate(serial.dy),
                       serial.of_packed(serial.x), serial.rstd, serial.gamma);
  }
  CHECK(same_bits(dx[0], dx[1]));
  CHECK(same_bits(dgamma[0], dgamma[1]));
}

TEST_CASE("head_norm: meta counts the scratch and bytes of a real run; wrong shapes throw") {
  HeadNorm n({.batch = 2, .length = 30, .groups = 2, .heads = 4, .dim = 16, .first = 0, .count = 2});
  Stream real(kDevice), counted(Device::meta, 1, kDevice);
  Arena real_scratch(kDevice, "scratch", 1 << 16), counted_scratch(Device::meta, "scratch", 0);
  Owned dgamma({16});
  const HeadSlice x{meta(n.packed), 0, 2}, y{meta(n.separate), 0, 2};
  const Tensor rstd = meta(n.rstd.shape()), gamma = meta({16});
  head_norm_forward(real, n.of_separate(n.y), n.rstd, n.of_packed(n.x), n.gamma, kRmsNormEps);
  head_norm_backward(real, real_scratch, n.of_separate(n.dy), {dgamma}, n.of_separate(n.dy), n.of_packed(n.x), n.rstd,
                     n.gamma);
  head_norm_forward(counted, y, rstd, x, gamma, kRmsNormEps);
  head_norm_backward(counted, counted_scratch, y, {gamma}, y, x, rstd, gamma);
  CHECK(real_scratch.peak() == counted_scratch.peak());
  CHECK(counted_scratch.peak() > 0);
  CHECK(real.counters().bytes == counted.counters().bytes);
  CHECK(real.counters().bytes > 0);
  CHECK(counted_scratch.used() == 0);

  const auto forward = [&](const HeadSlice& to, const Tensor& r, const HeadSlice& from, const Tensor& weight) {
    head_norm_forward(counted, to, r, from, weight, kRmsNormEps);
  };
  CHECK_THROWS_WITH(forward(y, rstd, x, meta({15})), doctest::Contains("head_norm gamma"));
  const HeadSlice narrow{meta(n.separate, DType::bf16), 0, 2};
  CHECK_THROWS_WITH(forward(y, rstd, x, meta({16}, DType::bf16)), doctest::Contains("head_norm gamma"));
  CHECK_THROWS_WITH(forward(narrow, rstd, x, gamma), doctest::Contains("head_norm y"));
  CHECK_THROWS_WITH(forward(y, meta({2, 30, 2, 4}), x, gamma), doctest::Contains("head_norm rstd"));
  CHECK_THROWS_WITH(forward({y.tensor, 0, 1}, rstd, x, gamma), doctest::Contains("head_norm y"));
  CHECK_THROWS_WITH(forward({meta({2, 30, 2, 2, 15}), 0, 2}, rstd, x, gamma), doctest::Contains("head_norm y"));
  CHECK_THROWS_WITH(forward(y, rstd, {x.tensor, 3, 2}, gamma), doctest::Contains("head_norm x"));
  const auto backward = [&](const HeadSlice& dx, const Grad& weight, const HeadSlice& dy, const Tensor& r) {
    head_norm_backward(counted, counted_scratch, dx, weight, dy, x, r, gamma);
  };
  CHECK_THROWS_WITH(backward({y.tensor, 1, 1}, {}, y, rstd), doctest::Contains("head_norm dx"));
  CHECK_THROWS_WITH(backward(narrow, {}, y, rstd), doctest::Contains("head_norm dx"));
  CHECK_THROWS_WITH(backward(y, {}, narrow, rstd), doctest::Contains("head_norm dy"));
  CHECK_THROWS_WITH(backward(y, {}, {y.tensor, 1, 1}, rstd), doctest::Contains("head_norm dy"));
  CHECK_THROWS_WITH(backward(y, {meta({15})}, y, rstd), doctest::Contains("head_norm dgamma"));
  CHECK_THROWS_WITH(backward(y, {}, y, {}), doctest::Contains("head_norm rstd"));
}

TEST_CASE("head_slice: accepts any dtype of the operators, and only heads within the tensor") {
  const Shape shape{2, 3, 1, 4, 8};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    CHECK_NOTHROW(check_slice("q", {meta(shape, dtype), 1, 3}));
  for (const DType dtype : {DType::f64, DType::i32})
    CHECK_THROWS_WITH(check_slice("q", {meta(shape, dtype), 1, 3}), doctest::Contains("q: expected float32, bfloat16"));
  CHECK_THROWS_WITH(check_slice("q", {meta(shape), 2, 3}), doctest::Contains("q: needs heads 2 to 5"));
}
