// Residual connections and the dropout masks for hidden states.
#include "kernels/residual.h"

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Branch {
  std::int64_t samples, length, width;
  StreamTypes types = kStreamTypes[0];
  Shape shape{samples * length, width};
  Owned residual = random_tensor(types.stream, shape, 1), branch = random_tensor(types.compute, shape, 2);
  Owned bias = random_tensor(types.compute, {width}, 3), dout = random_tensor(types.stream, shape, 4);
  double mask(const Dropout& dropout, const RowMap& rows, std::int64_t i) const {
    return hidden_mask(dropout, rows, i / width, i % width, width);
  }
};

constexpr std::int64_t kFirstSample = (std::int64_t{1} << 33) + 5;

Dropout dropout_of(float probability) { return {probability, {1234, 56}}; }

RowMap rows_of(std::int64_t seq_length, std::int64_t first_row = 0) {
  return {samples_from(kFirstSample), first_row, seq_length};
}

struct ResidualSize {
  std::int64_t samples, length, width;
};
constexpr ResidualSize kResidualSizes[] = {{1, 1, 1},    {2, 3, 7},    {3, 5, 1031}, {2, 9, 768},
                                           {4, 129, 24}, {16, 140, 8}, {1, 3, 2056}, {1, 9, 1024},
                                           {1, 5, 1032}, {1, 4, 8192}, {1, 3, 8200}};

void check_residual(const Branch& b, const Dropout& dropout, GradMode mode, DType grads) {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 20);
  const RowMap rows = rows_of(b.length, 3);
  const bool with_bias = mode == GradMode::overwrite;
  Owned out(b.types.stream, b.shape), dbranch(b.types.compute, b.shape), dbias = random_tensor(grads, {b.width}, 5);
  const std::vector<double> residual = b.residual.values(), branch = b.branch.values(), dout = b.dout.values();
  std::vector<double> bias = b.bias.values(), sums = dbias.values(), expected, dx;
  if (!with_bias) std::ranges::fill(bias, 0.0);
  if (mode == GradMode::overwrite) std::ranges::fill(sums, 0.0);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const double factor = b.mask(dropout, rows, static_cast<std::int64_t>(i));
    const std::size_t column = i % sums.size();
    expected.push_back(residual[i] + factor * (branch[i] + bias[column]));
    dx.push_back(factor * dout[i]);
    sums[column] += dx.back();
  }
  residual_forward(stream, out, {b.residual, b.branch, with_bias ? b.bias.tensor() : Tensor(), dropout, rows});
  CHECK(relative_rms(out, expected) < rounding_of(b.types.stream, kTolerance.elementwise));
  residual_backward(stream, scratch, dbranch, {dbias, mode}, b.dout, dropout, rows);
  CHECK(relative_rms(dbranch, dx) < rounding_of(b.types.compute, kTolerance.elementwise));
  CHECK(relative_rms(dbias, sums) < rounding_of(grads, kTolerance.reduction));
}

}  // namespace

TEST_CASE("residual: forward and backward equal the reference, with and without dropout and bias, in every dtype") {
  std::size_t number = 0;
  for (auto [samples, length, width] : kResidualSizes) {
    for (const StreamTypes types : kStreamTypes) {
      const Branch b{samples, length, width, types};
      for (float probability : {0.0f, number % 2 == 0 ? 0.1f : 0.5f}) {
        CAPTURE(width);
        CAPTURE(probability);
        CAPTURE(std::string(name_of(types.stream)));
        CAPTURE(std::string(name_of(types.compute)));
        for (const auto& [mode, grads] : grad_kinds(number, types.compute))
          check_residual(b, dropout_of(probability), mode, grads);
      }
    }
    ++number;
  }
}

TEST_CASE("residual: in place, forward over the residual and backward over dout") {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 20);
  for (const StreamTypes types : kStreamTypes) {
    const Branch b{2, 9, 40, types};
    Owned out(types.stream, b.shape), dbias({40}), dbias_in_place({40}), dbranch(types.compute, b.shape);
    for (const Dropout& dropout : {dropout_of(0.2f), Dropout{}}) {
      residual_forward(stream, out, {b.residual, b.branch, b.bias, dropout, rows_of(9)});
      Owned in_place = random_tensor(types.stream, b.shape, 1);
      residual_forward(stream, in_place, {in_place, b.branch, b.bias, dropout, rows_of(9)});
      CHECK(same_bits(out, in_place));
    }
    if (types.stream != types.compute) {
      const Tensor over(b.dout.tensor().raw(), types.compute, b.shape);
      CHECK_THROWS_WITH_AS(residual_backward(stream, scratch, over, {}, b.dout, {}, {}), doctest::Contains("in place"),
                           Error);
      continue;
    }
    for (const Dropout& dropout : {Dropout{}, dropout_of(0.2f)}) {
      residual_backward(stream, scratch, dbranch, {dbias}, b.dout, dropout, rows_of(9));
      if (!dropout.active()) {
        const Owned dbias_alone({40});
        residual_backward(stream, scratch, {}, {dbias_alone}, b.dout, dropout, {});
        CHECK(same_bits(dbias, dbias_alone));
      }
      residual_backward(stream, scratch, b.dout, {dbias_in_place}, b.dout, dropout, rows_of(9));
      CHECK(same_bits(dbias, dbias_in_place));
      CHECK(same_bits(dbranch, b.dout));
    }
  }
}

TEST_CASE("dropout: a mask does not depend on the division of batch and sequence") {
  Stream stream(kDevice, 2);
  Branch b{4, 16, 27};
  const Owned zeros = filled(b.shape, 0), ones = filled(b.shape, 1);
  Owned whole(b.shape);
  residual_forward(stream, whole, {zeros, ones, {}, dropout_of(0.3f), rows_of(16)});
  for (std::int64_t size : {1, 8, 32, 40}) {  // from part of a sample to over two
    for (std::int64_t begin = 0; begin + size <= 64; begin += size) {
      const std::int64_t skipped = begin / 16;  // a micro-batch that starts at a later sample
      const RowMap rows{samples_from(kFirstSample + skipped), begin - 16 * skipped, 16};
      Owned part({size, 27});
      residual_forward(stream, part,
                       {zeros.tensor().rows(0, size), ones.tensor().rows(0, size), {}, dropout_of(0.3f), rows});
      CHECK(same_bits(part, whole.tensor().rows(begin, size)));
    }
  }
}

TEST_CASE("dropout: keeps the specified share and the mean") {
  Stream stream(kDevice, 2);
  const Shape shape{512, 1024};
  Owned zeros = filled(shape, 0), ones = filled(shape, 1), out(shape);
  residual_forward(stream, out, {zeros, ones, {}, dropout_of(0.1f), rows_of(64)});
  double sum = 0, dropped = 0;
  for (double value : out.values()) {
    sum += value;
    dropped += value == 0;
  }
  const auto n = static_cast<double>(out.numel());
  CHECK(std::abs(dropped / n - 0.1) < 4 * std::sqrt(0.09 / n));
  CHECK(std::abs(sum / n - 1) < 0.003);
  residual_forward(stream, out, {zeros, ones, {}, dropout_of(1.0f), rows_of(64)});
  CHECK(relative_rms(out, zeros.values()) == 0);
}

TEST_CASE("residual: the gradient equals finite differences") {
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Branch b{2, 3, 5};
  const Dropout dropout = dropout_of(0.4f);
  const RowMap rows = rows_of(3);
  Owned out(b.shape), dbranch(b.shape), dbias({5});
  const auto loss = [&] {
    residual_forward(stream, out, {b.residual, b.branch, b.bias, dropout, rows});
    return weighted_sum(b.dout, out);
  };
  residual_backward(stream, scratch, dbranch, {dbias}, b.dout, dropout, rows);
  CHECK(relative_rms(dbranch, finite_differences(b.branch, loss)) < kTolerance.difference);
  CHECK(relative_rms(dbias, finite_differences(b.bias, loss)) < kTolerance.difference);
}

TEST_CASE("residual: one thread and four produce the same bits; meta counts the same scratch; wrong shapes throw") {
  Branch b{3, 70, 259};
  Owned dbranch1(b.shape), dbranch4(b.shape), dbias1({259}), dbias4({259}), out1(b.shape), out4(b.shape);
  Stream serial(kDevice, 1), parallel(kDevice, 4), counted(Device::meta, 1, kDevice);
  Arena scratch(kDevice, "scratch", 1 << 20), counted_scratch(Device::meta, "scratch", 0);
  residual_forward(serial, out1, {b.residual, b.branch, b.bias, dropout_of(0.1f), rows_of(70)});
  residual_forward(parallel, out4, {b.residual, b.branch, b.bias, dropout_of(0.1f), rows_of(70)});
  CHECK(same_bits(out1, out4));
  residual_backward(serial, scratch, dbranch1, {dbias1}, b.dout, dropout_of(0.1f), rows_of(70));
  residual_backward(parallel, scratch, dbranch4, {dbias4}, b.dout, dropout_of(0.1f), rows_of(70));
  CHECK(same_bits(dbranch1, dbranch4));
  CHECK(same_bits(dbias1, dbias4));
  residual_forward(counted, meta(b.shape), {meta(b.shape), meta(b.shape), meta({259}), {}, {}});
  residual_backward(counted, counted_scratch, meta(b.shape), {meta({259})}, meta(b.shape), {}, {});
  CHECK(counted_scratch.peak() == scratch.peak());
  CHECK(counted.counters().bytes == serial.counters().bytes);
  CHECK_THROWS_AS(residual_forward(counted, meta({6, 4}), {meta({6, 4}), meta({6, 5}), {}, {}, {}}), Error);
  CHECK_THROWS_AS(residual_forward(counted, meta({6, 4}), {meta({6, 4}), meta({6, 4}), meta({3}), {}, {}}), Error);
  CHECK_THROWS_AS(residual_forward(counted, meta({2, 3, 4}), {meta({2, 3, 4}), meta({2, 3, 4}), {}, {}, {}}), Error);
  const Tensor narrow = meta({6, 4}, DType::bf16), wide = meta({6, 4});
  CHECK_THROWS_AS(residual_forward(counted, narrow, {narrow, wide, {}, {}, {}}), Error);
  CHECK_THROWS_AS(residual_forward(counted, wide, {narrow, narrow, {}, {}, {}}), Error);
  CHECK_THROWS_AS(residual_forward(counted, wide, {wide, narrow, meta({4}), {}, {}}), Error);
  CHECK_THROWS_AS(residual_backward(counted, counted_scratch, wide, {}, narrow, {}, {}), Error);
  counted.reset_counters();
  residual_forward(counted, wide, {wide, narrow, meta({4}, DType::bf16), {}, {}});
  residual_backward(counted, counted_scratch, narrow, {meta({4})}, wide, {}, {});
  CHECK(counted.counters().bytes == 24 * (4 + 4 + 2) + 4 * 2 + 24 * (2 + 4) + 4 * 4);
  counted.reset_counters();
  residual_backward(counted, counted_scratch, {}, {meta({4})}, wide, {}, {});
  CHECK(counted.counters().bytes == 24 * 4 + 4 * 4);
  CHECK_THROWS_AS(residual_backward(counted, counted_scratch, {}, {}, wide, {}, {}), Error);
  CHECK_THROWS_AS(residual_backward(counted, counted_scratch, {}, {meta({4})}, wide, dropout_of(0.1f), rows_of(6)),
                  Error);
  const auto beyond = [&](const RowMap& rows) {
    return residual_forward(counted, meta({6, 4}), {meta({6, 4}), meta({6, 4}), {}, dropout_of(0.1f), rows});
  };
  const Tensor two = meta({2}, DType::i64);
  CHECK_NOTHROW(beyond({two, 2, 4}));
  CHECK_THROWS_WITH_AS(beyond({two, 3, 4}), doctest::Contains("rows 3 to 9"), Error);
  CHECK_THROWS_WITH_AS(beyond({{}, 0, 4}), doctest::Contains("samples"), Error);
  CHECK_THROWS_AS(residual_backward(counted, counted_scratch, meta({6, 4}), {meta({5})}, meta({6, 4}), {}, {}), Error);
}
