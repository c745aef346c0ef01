// Elementwise operators, and the sum of squares.
#include "kernels/elementwise.h"

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("elementwise: fill and copy are exact at odd sizes") {
  Stream stream(kDevice, 2);
  for (std::int64_t n : {0, 1, 3, 7, 1031, 50001}) {
    const Owned from = random_tensor({n}, 1);
    Owned to = random_tensor({n}, 2);
    copy(stream, to, from);
    CHECK(same_bits(to, from));
    fill_zero(stream, to);
    CHECK(to.values() == std::vector<double>(static_cast<std::size_t>(n), 0.0));
  }
}

TEST_CASE("add: every sum is rounded once, at odd sizes and in every dtype") {
  Stream stream(kDevice, 3);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(name_of(dtype));
    for (std::int64_t n : {0, 1, 7, 8, 1031, 50000}) {
      const Owned in = rounded(random_tensor({n}, 1), dtype);
      Owned out = rounded(random_tensor({n}, 2), dtype);
      std::vector<double> sums = out.values(), terms = in.values();
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += terms[i];
      add(stream, out, in);
      CHECK(same_bits(out, rounded(rounded(sums, {n}), dtype)));
    }
  }
}

TEST_CASE("sum_of_squares: fp64 accuracy, the same bits with any number of threads, 16-bit elements are widened") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  for (std::int64_t n : {0, 1, 3, 7, 1031, 65536, 300001}) {
    Owned x = random_tensor({n}, 3), one(DType::f64, {1}), four(DType::f64, {1});
    double expected = 0;
    for (double value : x.values()) expected += value * value;
    *four.host<double>() = 99;
    sum_of_squares(serial, scratch, one, {x});
    sum_of_squares(parallel, scratch, four, {x});
    CHECK(*one.host<double>() == doctest::Approx(expected).epsilon(1e-12));
    CHECK(same_bits(one, four));
    for (DType dtype : {DType::bf16, DType::f16}) {
      const Owned narrow = rounded(x, dtype);
      sum_of_squares(parallel, scratch, four, {narrow});
      sum_of_squares(serial, scratch, one, {rounded(narrow.values(), x.shape())});
      CHECK(*four.host<double>() == doctest::Approx(*one.host<double>()).epsilon(1e-12));
    }
  }
}

TEST_CASE("sum_of_squares: adds the sums of the tensors in order, and gives 0 for none") {
  Arena scratch(kDevice, "scratch", 1 << 16);
  Stream stream(kDevice, 2);
  Owned out(DType::f64, {1});
  std::vector<Owned> owned;
  double expected = 0;
  for (std::int64_t n : {1031, 0, 65536, 1, 8, 0, 7, 4096}) {  // each is one block
    owned.push_back(random_tensor({n}, static_cast<unsigned>(n)));
    sum_of_squares(stream, scratch, out, {owned.back()});
    expected += *out.host<double>();
  }
  sum_of_squares(stream, scratch, out, {owned.begin(), owned.end()});
  CHECK(*out.host<double>() == expected);
  sum_of_squares(stream, scratch, out, {});
  CHECK(*out.host<double>() == 0);
}

TEST_CASE("elementwise: counts bytes and scratch on meta; wrong shapes throw") {
  Stream stream(Device::meta, 1, kDevice), real(kDevice);
  Arena scratch(Device::meta, "scratch", 0), real_scratch(kDevice, "scratch", 1 << 16);
  copy(stream, meta({100}), meta({100}));
  CHECK(stream.counters().bytes == 800);
  add(stream, meta({100}, DType::bf16), meta({100}, DType::bf16));
  CHECK(stream.counters().bytes == 800 + 600);
  sum_of_squares(stream, scratch, meta({1}, DType::f64), {meta({200000}), meta({70000})});
  CHECK(stream.counters().bytes == 800 + 600 + 4 * 270000);
  Owned x = filled({200000}, 1), y = filled({70000}, 1), out(DType::f64, {1});
  sum_of_squares(real, real_scratch, out, {x, y});
  CHECK(scratch.peak() == real_scratch.peak());
  CHECK_THROWS_AS(copy(stream, meta({100}), meta({99})), Error);
  CHECK_THROWS_AS(copy(stream, meta({100}), meta({100}, DType::i32)), Error);
  CHECK_THROWS_AS(add(stream, meta({100}), meta({99})), Error);
  CHECK_THROWS_AS(add(stream, meta({100}), meta({100}, DType::bf16)), Error);
  CHECK_THROWS_AS(add(stream, meta({100}, DType::i32), meta({100}, DType::i32)), Error);
  CHECK_THROWS_AS(sum_of_squares(stream, scratch, meta({1}), {meta({10})}), Error);
  const std::vector<Tensor> mixed{meta({10}), meta({10}, DType::bf16)};
  CHECK_THROWS_AS(sum_of_squares(stream, scratch, meta({1}, DType::f64), mixed), Error);
}

TEST_CASE("count_zeros: counts zeros of both signs, no subnormals and no NaN, and adds to the count") {
  Stream stream(kDevice, 3);
  Owned count(DType::i64, {1});
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (std::int64_t n : {0, 1, 7, 8, 1031, 40001, 65536}) {
      Owned in = filled({n}, 0.25f);
      std::int64_t expected = 1000;
      for (std::int64_t i = 0; i < n; ++i) {
        if (i % 3 == 0 || i == n - 1) {
          in[i] = i % 2 == 0 ? 0.0f : -0.0f;
          ++expected;
        } else if (i % 7 == 0) {
          in[i] = dtype == DType::f16 ? 6e-8f : 1e-40f;
        } else if (i % 11 == 0) {
          in[i] = NAN;
        }
      }
      *count.host<std::int64_t>() = 1000;
      count_zeros(stream, count, rounded(in, dtype));
      CHECK(*count.host<std::int64_t>() == expected);
    }
  }
  CHECK_THROWS_AS(count_zeros(stream, meta({1}), meta({10})), Error);
}

TEST_CASE("find_nonfinite: accepts the largest 16-bit numbers, detects infinity and NaN anywhere") {
  Stream stream(kDevice, 3);
  Owned found(DType::i32, {1});
  const auto search = [&](const Owned& in) {
    find_nonfinite(stream, found, in);
    return found.host<std::int32_t>()[0];
  };
  for (auto [dtype, largest] : {std::pair{DType::bf16, 3.3895314e38f}, std::pair{DType::f16, 65504.0f}}) {
    for (std::int64_t n : {1, 16385}) {
      Owned in = filled({n}, -largest);
      CHECK(search(rounded(in, dtype)) == 0);
      for (float bad : {INFINITY, -INFINITY, NAN}) {
        in[n - 1] = bad;
        CHECK(search(rounded(in, dtype)) == 1);
      }
    }
  }
}

TEST_CASE("find_nonfinite: detects one infinity or NaN anywhere, and reports none for finite numbers") {
  Stream stream(kDevice, 3);
  Owned found(DType::i32, {1});
  for (std::int64_t n : {1, 7, 16384, 40001}) {
    Owned in = random_tensor({n}, 3, 1e30);
    find_nonfinite(stream, found, in);
    CHECK(found.host<std::int32_t>()[0] == 0);
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      for (std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        float before = in[at];
        in[at] = bad;
        find_nonfinite(stream, found, in);
        CHECK(found.host<std::int32_t>()[0] == 1);
        in[at] = before;
      }
    }
  }
}
