// Gated MLPs: their activation. simd_test.cpp tests the activation functions with every instruction set.
#include "kernels/activation.h"

#include "tests/kernels/activation_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct GatedProblem {
  std::int64_t rows, width;
  DType dtype = DType::f32;
  Owned pre = random_tensor(dtype, {rows, 2 * width}, 1, 2);
  Owned dout = random_tensor(dtype, {rows, width}, 2);

  /// Returns where `pre` stores the gate for result element i. The factor is `width` elements later.
  std::size_t gate_at(std::size_t i) const {
    const auto n = static_cast<std::size_t>(width);
    return i / n * 2 * n + i % n;
  }
  std::vector<double> expected_out(Activation activation) const {
    const std::vector<double> in = pre.values();
    std::vector<double> out;
    for (std::size_t i = 0; i < in.size() / 2; ++i)
      out.push_back(reference_activation(activation, in[gate_at(i)]) *
                    in[gate_at(i) + static_cast<std::size_t>(width)]);
    return out;
  }
  std::vector<double> expected_dpre(Activation activation) const {
    const std::vector<double> in = pre.values(), d = dout.values();
    std::vector<double> out(in.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      const std::size_t gate = gate_at(i), up = gate + static_cast<std::size_t>(width);
      out[gate] = d[i] * in[up] * reference_activation_derivative(activation, in[gate]);
      out[up] = d[i] * reference_activation(activation, in[gate]);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("gated: forward and backward equal the reference in every dtype, and backward may overwrite its input") {
  Stream stream(kDevice, 2);
  for (const Activation activation : kActivations) {
    for (auto [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {64, 160}, {5, 1031}, {130, 257}}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        CAPTURE(static_cast<int>(activation));
        CAPTURE(width);
        CAPTURE(std::string(name_of(dtype)));
        const GatedProblem p{rows, width, dtype};
        const double tolerance = rounding_of(dtype, kTolerance.elementwise);
        Owned out(dtype, {rows, width}), dpre(dtype, {rows, 2 * width});
        gated_forward(stream, out, p.pre, activation);
        CHECK(relative_rms(out, p.expected_out(activation)) < tolerance);
        gated_backward(stream, dpre, p.dout, p.pre, activation);
        CHECK(relative_rms(dpre, p.expected_dpre(activation)) < tolerance);
        gated_backward(stream, p.pre, p.dout, p.pre, activation);
        CHECK(same_bits(p.pre, dpre));
      }
    }
  }
}

TEST_CASE("gated: the gradient equals finite differences") {
  Stream stream(kDevice);
  for (const Activation activation : kActivations) {
    CAPTURE(static_cast<int>(activation));
    const GatedProblem p{3, 5};
    for (std::int64_t i = 0; i < p.pre.numel(); ++i) {
      if (std::abs(p.pre[i]) < 0.05f) p.pre[i] = 0.05f;  // keeps finite differences away from relu's kink
    }
    Owned out({3, 5}), dpre({3, 10});
    gated_backward(stream, dpre, p.dout, p.pre, activation);
    const auto loss = [&] {
      gated_forward(stream, out, p.pre, activation);
      return weighted_sum(p.dout, out);
    };
    CHECK(relative_rms(dpre, finite_differences(p.pre, loss)) < kTolerance.difference);
  }
}

TEST_CASE("gated: one thread and four produce the same bits") {
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  const GatedProblem p{210, 259};
  Owned out1({210, 259}), out4({210, 259}), dpre1({210, 518}), dpre4({210, 518});
  gated_forward(serial, out1, p.pre, Activation::silu);
  gated_forward(parallel, out4, p.pre, Activation::silu);
  CHECK(same_bits(out1, out4));
  gated_backward(serial, dpre1, p.dout, p.pre, Activation::silu);
  gated_backward(parallel, dpre4, p.dout, p.pre, Activation::silu);
  CHECK(same_bits(dpre1, dpre4));
}

TEST_CASE("gated: counts on meta; wrong shapes throw") {
  Stream stream(Device::meta);
  gated_forward(stream, meta({6, 4}), meta({6, 8}), Activation::silu);
  CHECK(stream.counters().bytes == 4.0 * 6 * (4 + 8));
  stream.reset_counters();
  gated_backward(stream, meta({6, 8}), meta({6, 4}), meta({6, 8}), Activation::silu);
  CHECK(stream.counters().bytes == 4.0 * 6 * (4 + 8 + 8));
  stream.reset_counters();
  gated_forward(stream, meta({6, 4}, DType::f16), meta({6, 8}, DType::f16), Activation::silu);
  CHECK(stream.counters().bytes == 2.0 * 6 * (4 + 8));
  CHECK_THROWS_AS(gated_forward(stream, meta({6, 4}), meta({6, 8}, DType::f16), Activation::silu), Error);
  CHECK_THROWS_AS(
      gated_backward(stream, meta({6, 8}), meta({6, 4}, DType::f16), meta({6, 8}, DType::f16), Activation::silu),
      Error);
  CHECK_THROWS_AS(gated_forward(stream, meta({6, 4}), meta({6, 4}), Activation::silu), Error);
  CHECK_THROWS_AS(gated_forward(stream, meta({2, 3, 4}), meta({6, 8}), Activation::silu), Error);
  CHECK_THROWS_AS(gated_forward(stream, meta({6, 4}, DType::f64), meta({6, 8}), Activation::silu), Error);
  CHECK_THROWS_AS(gated_backward(stream, meta({6, 4}), meta({6, 4}), meta({6, 8}), Activation::silu), Error);
  CHECK_THROWS_AS(gated_backward(stream, meta({6, 8}), meta({5, 4}), meta({6, 8}), Activation::silu), Error);
}
