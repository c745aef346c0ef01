// Cross-entropy: the entire vocabulary, slices, and padding.
#include "kernels/cross_entropy.h"

#include <cstring>

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct LossProblem {
  std::int64_t rows, vocab, padded;
  Owned logits = random_tensor({rows, padded}, 1, 3);
  Owned labels = random_integers({rows}, 0, static_cast<std::int32_t>(vocab), 2);
  Owned weights = random_tensor({rows}, 3);
  /// Rounds the logits to dtype, and returns them in it.
  Owned logits_in(DType dtype) {
    Owned out = rounded(logits, dtype);
    logits = rounded(out, DType::f32);
    return out;
  }
  double z(std::int64_t row, std::int64_t v) const { return static_cast<double>(logits[row * padded + v]); }
  std::int64_t label(std::int64_t row) const { return labels.host<std::int32_t>()[row]; }
  double log_sum(std::int64_t row) const {
    double max = z(row, 0), sum = 0;
    for (std::int64_t v = 0; v < vocab; ++v) max = std::max(max, z(row, v));
    for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(z(row, v) - max);
    return max + std::log(sum);
  }
};

std::vector<double> reference_losses(const LossProblem& p) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < p.rows; ++row) out.push_back(p.log_sum(row) - p.z(row, p.label(row)));
  return out;
}

std::vector<double> reference_gradient(const LossProblem& p, double z_coefficient = 0) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double log_sum = p.log_sum(row), weight = static_cast<double>(p.weights[row]);
    const double scale = 1 + 2 * z_coefficient * log_sum;
    for (std::int64_t v = 0; v < p.padded; ++v) {
      const double hit = v == p.label(row) ? 1 : 0;
      out.push_back(v < p.vocab ? weight * (scale * std::exp(p.z(row, v) - log_sum) - hit) : 0.0);
    }
  }
  return out;
}

struct LossSize {
  std::int64_t rows, vocab, padded;
};
constexpr LossSize kLossSizes[] = {{1, 1, 1},         {3, 7, 7},         {5, 1031, 1088}, {64, 33, 64},
                                   {2, 50257, 50304}, {5, 50257, 50257}, {9, 1031, 1031}, {9, 21, 27}};

}  // namespace

TEST_CASE("cross_entropy: losses of fp32 and bf16 logits equal fp64 to 2e-7, gradients as rounded; no padding") {
  Stream stream(kDevice, 2);
  for (auto [rows, vocab, padded] : kLossSizes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(vocab);
      CAPTURE(std::string(name_of(dtype)));
      LossProblem p{rows, vocab, padded};
      for (std::int64_t row = 0; row < rows; ++row) {  // padding that would change the maximum and the sum
        for (std::int64_t v = vocab; v < padded; ++v) p.logits[row * padded + v] = v % 2 == 0 ? 1e9f : NAN;
      }
      const Owned logits = p.logits_in(dtype);
      const std::vector<double> losses = reference_losses(p), gradient = reference_gradient(p);
      Owned stats({rows, 3}), out({rows});
      cross_entropy_stats(stream, stats, logits, p.labels, {0, vocab});
      cross_entropy_loss(stream, out, stats);
      for (std::int64_t row = 0; row < rows; ++row) {
        const double expected = losses[static_cast<std::size_t>(row)];
        CHECK(std::abs(static_cast<double>(out[row]) - expected) <= 2e-7 * expected + 1e-6 * (vocab < 1000));
      }
      cross_entropy_backward(stream, logits, logits, stats, p.labels, p.weights, {0, vocab});
      CHECK(relative_rms(logits, gradient) < rounding_of(dtype, kTolerance.elementwise));
    }
  }
}

TEST_CASE("cross_entropy: combined statistics of slices of the vocabulary equal those of the whole vocabulary") {
  Stream stream(kDevice, 2);
  LossProblem p{6, 100, 100};
  const std::vector<double> losses = reference_losses(p), gradient = reference_gradient(p);
  const std::int64_t cuts[] = {0, 37, 90, 90, 100};  // one slice is empty: all padding
  Owned whole({6, 3}), stats({4, 6, 3});
  std::vector<Owned> parts;
  for (int s = 0; s < 4; ++s) {
    const std::int64_t valid = cuts[s + 1] - cuts[s];
    parts.emplace_back(Shape{6, 60});
    for (std::int64_t row = 0; row < 6; ++row) {
      for (std::int64_t v = 0; v < valid; ++v) parts.back()[row * 60 + v] = p.logits[row * 100 + cuts[s] + v];
    }
    cross_entropy_stats(stream, stats.tensor().rows(s, 1).view({6, 3}), parts.back(), p.labels, {cuts[s], valid});
  }
  cross_entropy_combine(stream, whole, stats);
  Owned alone({6, 3});
  cross_entropy_combine(stream, alone, stats.tensor().rows(1, 1));
  CHECK(same_bits(alone, stats.tensor().rows(1, 1).view({6, 3})));
  Owned out({6});
  cross_entropy_loss(stream, out, whole);
  CHECK(relative_rms(out, losses) < kTolerance.elementwise);
  for (int s = 0; s < 4; ++s) {
    cross_entropy_backward(stream, parts[s], parts[s], whole, p.labels, p.weights, {cuts[s], cuts[s + 1] - cuts[s]});
    std::vector<double> expected(6 * 60, 0.0);
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::int64_t v = cuts[s]; v < cuts[s + 1]; ++v) {
        expected[row * 60 + static_cast<std::size_t>(v - cuts[s])] = gradient[row * 100 + static_cast<std::size_t>(v)];
      }
    }
    CHECK(relative_rms(parts[s], expected) < kTolerance.elementwise);
  }
}

TEST_CASE("cross_entropy: the 16-bit gradient is the rounded fp32 gradient, times the loss scale") {
  Stream stream(kDevice, 2);
  for (DType dtype : {DType::bf16, DType::f16}) {
    for (double loss_scale : {1.0, 1024.0}) {
      CAPTURE(std::string(name_of(dtype)));
      const std::int64_t padded = loss_scale == 1 ? 1088 : 1035;  // rows aligned to 16 bytes, and unaligned ones
      LossProblem p{5, 1031, padded};
      Owned stats({5, 3}), narrow(dtype, {5, padded}), state(DType::u8, {sizeof(StepState)});
      const StepState step{{.loss_scale = loss_scale}, {}};
      std::memcpy(state.host<std::uint8_t>(), &step, sizeof step);
      cross_entropy_stats(stream, stats, p.logits, p.labels, {0, 1031});
      Owned wide = rounded(p.logits, DType::f32);
      const auto* on_device = static_cast<const StepState*>(state.tensor().raw());
      cross_entropy_backward(stream, wide, wide, stats, p.labels, p.weights, {0, 1031}, on_device);
      cross_entropy_backward(stream, narrow, p.logits, stats, p.labels, p.weights, {0, 1031}, on_device);
      CHECK(same_bits(narrow, rounded(wide, dtype)));
      std::vector<double> expected = reference_gradient(LossProblem{5, 1031, padded});
      for (double& g : expected) g *= loss_scale;
      CHECK(relative_rms(wide, expected) < kTolerance.elementwise);
    }
  }
}

TEST_CASE("cross_entropy: bf16 logits give the bits of the same logits in fp32") {
  Stream stream(kDevice, 2);
  for (const std::int64_t padded : {1088, 1035}) {  // rows aligned to 16 bytes, and unaligned ones
    LossProblem p{5, 1031, padded};
    const Owned logits = p.logits_in(DType::bf16);
    Owned stats({5, 3}), stats_of_wide({5, 3}), of_wide(DType::bf16, {5, padded});
    cross_entropy_stats(stream, stats, logits, p.labels, {0, 1031});
    cross_entropy_stats(stream, stats_of_wide, p.logits, p.labels, {0, 1031});
    CHECK(same_bits(stats, stats_of_wide));
    cross_entropy_backward(stream, logits, logits, stats, p.labels, p.weights, {0, 1031});
    cross_entropy_backward(stream, of_wide, p.logits, stats, p.labels, p.weights, {0, 1031});
    CHECK(same_bits(logits, of_wide));
  }
}

TEST_CASE("cross_entropy: the gradient equals finite differences of the loss") {
  Stream stream(kDevice);
  LossProblem p{3, 11, 16};
  Owned stats({3, 3}), losses({3}), gradient({3, 16});
  const auto loss = [&] {
    cross_entropy_stats(stream, stats, p.logits, p.labels, {0, 11});
    cross_entropy_loss(stream, losses, stats);
    return weighted_sum(p.weights, losses);
  };
  const std::vector<double> expected = finite_differences(p.logits, loss);
  loss();
  std::copy(p.logits.begin(), p.logits.begin() + p.logits.numel(), gradient.begin());
  cross_entropy_backward(stream, gradient, gradient, stats, p.labels, p.weights, {0, 11});
  CHECK(relative_rms(gradient, expected) < kTolerance.difference);
}

TEST_CASE("sum_losses: adds in fp64 in a fixed order, skips losses of zero weight, overwrites and accumulates") {
  Stream stream(kDevice, 2);
  for (std::int64_t n : {1, 2, 7, 1031}) {
    Owned losses = random_tensor({n}, 1, 1e3), weights = random_tensor({n}, 2), sum(DType::f64, {1});
    double expected = 0;
    for (std::int64_t i = 0; i < n; i += 3) weights[i] = 0, losses[i] = NAN;
    for (std::int64_t i = 0; i < n; ++i) expected += i % 3 == 0 ? 0 : double{losses[i]};
    sum_losses(stream, sum, losses, weights, GradMode::overwrite);
    const double first = *sum.host<double>();
    CHECK(first == doctest::Approx(expected).epsilon(1e-12));
    sum_losses(stream, sum, losses, weights, GradMode::overwrite);
    CHECK(*sum.host<double>() == first);
    sum_losses(stream, sum, losses, weights, GradMode::accumulate);
    CHECK(*sum.host<double>() == doctest::Approx(2 * expected).epsilon(1e-12));
  }
}

TEST_CASE("cross_entropy: NaN and infinite logits propagate to the loss") {
  Stream stream(kDevice);
  for (float bad : {NAN, INFINITY}) {
    LossProblem p{1, 40, 40};
    p.logits[17] = bad;
    Owned stats({1, 3}), losses({1});
    cross_entropy_stats(stream, stats, p.logits, p.labels, {0, 40});
    cross_entropy_loss(stream, losses, stats);
    CHECK(!std::isfinite(losses[0]));
  }
}

TEST_CASE("cross_entropy: logits of -inf have probability 0") {
  Stream stream(kDevice);
  LossProblem p{3, 40, 40};
  for (std::int64_t row = 0; row < 3; ++row) {  // eight columns without the label; a thread may read them together
    const std::int64_t begin = p.label(row) / 8 == 2 ? 8 : 16;
    for (std::int64_t v = begin; v < begin + 8; ++v) p.logits[row * 40 + v] = -INFINITY;
  }
  const std::vector<double> losses = reference_losses(p), gradient = reference_gradient(p);
  Owned stats({3, 3}), out({3});
  cross_entropy_stats(stream, stats, p.logits, p.labels, {0, 40});
  cross_entropy_loss(stream, out, stats);
  CHECK(relative_rms(out, losses) < kTolerance.elementwise);
  cross_entropy_backward(stream, p.logits, p.logits, stats, p.labels, p.weights, {0, 40});
  CHECK(relative_rms(p.logits, gradient) < kTolerance.elementwise);
}

TEST_CASE("cross_entropy: one thread and four produce the same bits") {
  LossProblem one{67, 1031, 1040}, four{67, 1031, 1040};
  Owned stats1({67, 3}), stats4({67, 3});
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  cross_entropy_stats(serial, stats1, one.logits, one.labels, {0, 1031});
  cross_entropy_stats(parallel, stats4, four.logits, four.labels, {0, 1031});
  CHECK(same_bits(stats1, stats4));
  cross_entropy_backward(serial, one.logits, one.logits, stats1, one.labels, one.weights, {0, 1031});
  cross_entropy_backward(parallel, four.logits, four.logits, stats4, four.labels, four.weights, {0, 1031});
  CHECK(same_bits(one.logits, four.logits));
}

TEST_CASE("cross_entropy: counts on meta; wrong shapes throw") {
  Stream stream(Device::meta);
  cross_entropy_backward(stream, meta({4, 10}), meta({4, 10}), meta({4, 3}), meta({4}, DType::i32), meta({4}), {0, 9});
  CHECK(stream.counters().bytes == 4.0 * (2 * 40 + 12 + 4 + 4));
  CHECK_THROWS_AS(cross_entropy_stats(stream, meta({4, 2}), meta({4, 10}), meta({4}, DType::i32), {0, 9}), Error);
  CHECK_THROWS_AS(cross_entropy_stats(stream, meta({4, 3}), meta({4, 10}), meta({4}), {0, 9}), Error);
  CHECK_THROWS_AS(cross_entropy_stats(stream, meta({4, 3}), meta({4, 10}), meta({4}, DType::i32), {0, 11}), Error);
  CHECK_THROWS_AS(cross_entropy_loss(stream, meta({4}), meta({5, 3})), Error);
  const Tensor labels = meta({4}, DType::i32), half = meta({4, 10}, DType::f16), bf16 = meta({4, 10}, DType::bf16);
  CHECK_THROWS_AS(cross_entropy_stats(stream, meta({4, 3}), half, labels, {0, 9}), Error);
  CHECK_THROWS_AS(cross_entropy_backward(stream, half, bf16, meta({4, 3}), labels, meta({4}), {0, 9}), Error);
}

TEST_CASE("cross_entropy: forward with backward equals the separate phases bit for bit, in every dtype and in place") {
  std::vector<LossSize> sizes(std::begin(kLossSizes), std::end(kLossSizes));
  sizes.push_back({32, 16411, 16411});  // in wide rows, sums in another order differ, but not in each row
  for (auto [rows, vocab, padded] : sizes) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const auto& [logits_dtype, in_place] :
           {std::pair(DType::f32, false), std::pair(dtype, true), std::pair(DType::bf16, false)}) {
        if (logits_dtype != DType::f32 && (logits_dtype != DType::bf16 || dtype != DType::bf16)) continue;
        CAPTURE(vocab);
        CAPTURE(std::string(name_of(dtype)));
        LossProblem p{rows, vocab, padded};
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t v = vocab; v < padded; ++v) p.logits[row * padded + v] = v % 2 == 0 ? 1e9f : NAN;
        }
        const Owned given = p.logits_in(logits_dtype), logits = rounded(given, logits_dtype);
        Owned state(DType::u8, {sizeof(StepState)});
        const StepState step{{.loss_scale = 8}, {}};
        std::memcpy(state.host<std::uint8_t>(), &step, sizeof step);
        const auto* scale = static_cast<const StepState*>(state.tensor().raw());
        Stream one(kDevice, 1), several(kDevice, 3);
        Owned stats({rows, 3}), losses({rows}), losses_at_once({rows});
        Owned dlogits(dtype, {rows, padded}), dlogits_at_once(dtype, {rows, padded});
        const Owned z_losses({rows}), z_losses_at_once({rows});
        const auto z_loss = [rows = rows](const Owned& out) { return ZLoss{rows == 5 ? 0.01f : 0, out}; };
        cross_entropy_stats(one, stats, given, p.labels, {0, vocab});
        cross_entropy_loss(one, losses, stats);
        cross_entropy_backward(one, dlogits, given, stats, p.labels, p.weights, {0, vocab}, scale, z_loss(z_losses));
        const Tensor out = in_place ? logits.tensor() : dlogits_at_once.tensor();
        cross_entropy_forward_backward(several, losses_at_once, out, logits, p.labels, p.weights, vocab, scale,
                                       z_loss(z_losses_at_once));
        CHECK(same_bits(losses, losses_at_once));
        CHECK(same_bits(z_losses, z_losses_at_once));
        CHECK(same_bits(dlogits, out));
      }
    }
  }
}

TEST_CASE("cross_entropy: forward with backward counts on meta; wrong shapes throw") {
  Stream stream(Device::meta);
  const Tensor logits = meta({4, 10}), labels = meta({4}, DType::i32), row = meta({4});
  cross_entropy_forward_backward(stream, row, meta({4, 10}, DType::bf16), logits, labels, row, 9);
  CHECK(stream.counters().bytes == 4.0 * (40 + 4 + 4 + 4) + 2 * 40);
  CHECK_THROWS_AS(cross_entropy_forward_backward(stream, meta({5}), logits, logits, labels, row, 9), Error);
  CHECK_THROWS_AS(cross_entropy_forward_backward(stream, row, meta({4, 9}), logits, labels, row, 9), Error);
  CHECK_THROWS_AS(cross_entropy_forward_backward(stream, row, logits, logits, labels, row, 11), Error);
  CHECK_THROWS_AS(cross_entropy_forward_backward(stream, row, logits, logits, row, row, 9), Error);
}

TEST_CASE("cross_entropy: z-losses, and their part of the gradient, equal fp64") {
  Stream stream(kDevice, 2);
  for (auto [rows, vocab, padded] : kLossSizes) {
    if (vocab == 1) continue;  // scale - 1 has few digits
    for (const float coefficient : {1e-4f, 0.1f}) {
      CAPTURE(vocab);
      LossProblem p{rows, vocab, padded};
      const std::vector<double> expected = reference_gradient(p, coefficient);
      std::vector<double> squares;
      for (std::int64_t row = 0; row < rows; ++row) squares.push_back(coefficient * p.log_sum(row) * p.log_sum(row));
      const Owned losses({rows}), z_losses({rows});
      cross_entropy_forward_backward(stream, losses, p.logits, p.logits, p.labels, p.weights, vocab, nullptr,
                                     {coefficient, z_losses});
      CHECK(relative_rms(z_losses, squares) < 1e-6);
      CHECK(relative_rms(p.logits, expected) < kTolerance.elementwise);
    }
  }
  Stream planned(Device::meta);
  const Tensor logits = meta({4, 10}), labels = meta({4}, DType::i32), row = meta({4});
  CHECK_THROWS_AS(cross_entropy_forward_backward(planned, row, logits, logits, labels, row, 9, nullptr, {1, meta({3})}),
                  Error);
}
