// The norms and rotations of q and k in one operator, compared with the separate operators.
#include "kernels/qk_norm_rotary.h"

#include "kernels/attention.h"
#include "kernels/head_norm.h"
#include "kernels/rotary.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr float kQkEps = 1e-5f;

struct QkCase {
  std::int64_t batch, length, groups, heads, dim;
  int pairs;
  bool interleaved;
};

// The last three have shapes for which CUDA calls the separate operators.
const QkCase kQkCases[] = {
    {2, 3, 2, 4, 64, 32, false},  {1, 7, 3, 2, 128, 64, true},    {2, 5, 1, 1, 64, 8, false},
    {2, 33, 2, 3, 80, 40, false}, {1, 50, 1, 4, 256, 128, false}, {2, 9, 2, 2, 48, 16, true},
    {2, 700, 2, 3, 32, 16, true}, {1, 5, 2, 2, 48, 12, false},    {1, 9, 1, 3, 33, 5, true},
    {1, 1, 1, 1, 288, 8, false},
};

/// The operands, and the results of the separate operators.
struct QkProblem {
  QkProblem(const QkCase& shape, DType type) : c(shape), dtype(type) {
    RotaryFrequencies frequencies{.pairs = c.pairs, .interleaved = c.interleaved};
    for (int i = 0; i < c.pairs; ++i) frequencies.values[static_cast<std::size_t>(i)] = std::pow(100.0, -i / 8.0);
    rotary_angles(stream, angles, random_integers({c.batch * c.length}, 0, 1000, 5), frequencies);
    const Qkv from = unpack_qkv(x), to = unpack_qkv(y);
    head_norm_forward(stream, to.q, q_rstd, from.q, q_gamma, kQkEps);
    head_norm_forward(stream, to.k, k_rstd, from.k, k_gamma, kQkEps);
    rotary_forward(stream, {y, 0, c.heads + 1}, angles, c.interleaved);
  }
  QkNorm norm(const Owned& q_rstds, const Owned& k_rstds) const {
    return {q_gamma, k_gamma, q_rstds, k_rstds, angles, c.interleaved};
  }
  /// Backward with the separate operators.
  void backward(const Owned& grad, const Grad& dq, const Grad& dk) {
    const Qkv from = unpack_qkv(x), grads = unpack_qkv(grad);
    rotary_backward(stream, {grad, 0, c.heads + 1}, angles, c.interleaved);
    head_norm_backward(stream, scratch, grads.q, dq, grads.q, from.q, q_rstd, q_gamma);
    head_norm_backward(stream, scratch, grads.k, dk, grads.k, from.k, k_rstd, k_gamma);
  }

  QkCase c;
  DType dtype;
  Stream stream{kDevice, 2};
  Arena scratch{kDevice, "scratch", 1 << 21};
  Shape shape{c.batch, c.length, c.groups, c.heads + 2, c.dim};
  Shape q_heads{c.batch, c.length, c.groups, c.heads}, k_heads{c.batch, c.length, c.groups, 1};
  Owned x = random_tensor(dtype, shape, 1, 2), y = random_tensor(dtype, shape, 2);
  Owned q_gamma = random_tensor(dtype, {c.dim}, 3), k_gamma = random_tensor(dtype, {c.dim}, 4);
  Owned q_rstd{q_heads}, k_rstd{k_heads}, angles{Shape{c.batch * c.length, 2, c.pairs}};
};

/// Checks that `actual` has the expected bits on the CPU. On CUDA, the order of the additions may differ, which changes
/// how a few 16-bit results are rounded.
void check_same(const Owned& actual, const Owned& expected, double fp32) {
  if (kDevice == Device::cpu) CHECK(same_bits(actual, expected));
  const std::vector<double> values = actual.values(), others = expected.values();
  CHECK(relative_rms(actual, others) < rounding_of(actual.dtype(), fp32));
  if (actual.dtype() == DType::f32) return;
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < values.size(); ++i) differing += values[i] == others[i] ? 0 : 1;
  CHECK(differing <= std::ssize(values) / 100);
}

}  // namespace

TEST_CASE("qk_norm_rotary: forward and backward equal the separate operators; values do not change") {
  for (const QkCase& c : kQkCases) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(c.dim);
      CAPTURE(c.pairs);
      CAPTURE(std::string(name_of(dtype)));
      QkProblem p(c, dtype);
      const Owned y = random_tensor(dtype, p.shape, 2), q_rstd(p.q_heads), k_rstd(p.k_heads);
      qk_norm_rotary_forward(p.stream, y, p.x, p.norm(q_rstd, k_rstd), kQkEps);
      check_same(y, p.y, kTolerance.elementwise);
      check_same(q_rstd, p.q_rstd, kTolerance.elementwise);
      check_same(k_rstd, p.k_rstd, kTolerance.elementwise);
      for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        const Owned grad = random_tensor(dtype, p.shape, 6), expected = random_tensor(dtype, p.shape, 6);
        const Owned dq = filled({c.dim}, 3), dk = filled({c.dim}, 4), dq_expected = filled({c.dim}, 3),
                    dk_expected = filled({c.dim}, 4);
        p.backward(expected, {dq_expected, mode}, {dk_expected, mode});
        qk_norm_rotary_backward(p.stream, p.scratch, grad, {dq, mode}, {dk, mode}, p.x, p.norm(p.q_rstd, p.k_rstd));
        check_same(grad, expected, kTolerance.reduction);
        check_same(dq, dq_expected, kTolerance.reduction);
        check_same(dk, dk_expected, kTolerance.reduction);
      }
      const std::int64_t row = c.dim * (c.heads + 2), value = c.dim * (c.heads + 1);
      const std::vector<double> before = random_tensor(dtype, p.shape, 2).values(), after = y.values();
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        if (i % row >= value) REQUIRE(after[static_cast<std::size_t>(i)] == before[static_cast<std::size_t>(i)]);
      }
    }
  }
}

TEST_CASE("qk_norm_rotary: without gradients of the gammas, the other gradients have the same bits") {
  QkProblem p(kQkCases[0], DType::bf16);
  const Owned grad = random_tensor(p.dtype, p.shape, 6), alone = random_tensor(p.dtype, p.shape, 6);
  const Owned dq({p.c.dim}), dk({p.c.dim});
  qk_norm_rotary_backward(p.stream, p.scratch, grad, {dq}, {dk}, p.x, p.norm(p.q_rstd, p.k_rstd));
  qk_norm_rotary_backward(p.stream, p.scratch, alone, {}, {}, p.x, p.norm(p.q_rstd, p.k_rstd));
  CHECK(same_bits(grad, alone));
}

TEST_CASE("qk_norm_rotary: meta counts the scratch and bytes of a real run") {
  QkProblem p(kQkCases[0], DType::bf16);
  Stream real(kDevice), counted(Device::meta, 1, kDevice);
  Arena real_scratch(kDevice, "scratch", 1 << 20), counted_scratch(Device::meta, "scratch", 0);
  const Owned grad(p.dtype, p.shape), dq({64}), dk({64});
  qk_norm_rotary_forward(real, p.y, p.x, p.norm(p.q_rstd, p.k_rstd), kQkEps);
  qk_norm_rotary_backward(real, real_scratch, grad, {dq}, {dk}, p.x, p.norm(p.q_rstd, p.k_rstd));
  const Tensor x = meta(p.shape, p.dtype), gamma = meta({64}, p.dtype), dgamma = meta({64}),
               angles = meta(p.angles.shape());
  const QkNorm norm{gamma, gamma, meta(p.q_heads), meta(p.k_heads), angles};
  qk_norm_rotary_forward(counted, x, x, norm, kQkEps);
  // q and k, 5 of 6 heads, are read and written once
  CHECK(counted.counters().bytes == 2.0 * 12 * 5 * 128 + 2 * 128 + 12 * 5 * 4 + static_cast<double>(angles.bytes()));
  qk_norm_rotary_backward(counted, counted_scratch, x, {dgamma}, {dgamma}, x, norm);
  CHECK(real.counters().bytes == counted.counters().bytes);
  CHECK(real_scratch.peak() == counted_scratch.peak());
  CHECK(counted_scratch.peak() > 0);

  const auto throws = [&](const Tensor& out, const QkNorm& of, const char* what) {
    CHECK_THROWS_WITH(qk_norm_rotary_forward(counted, out, x, of, kQkEps), doctest::Contains(what));
    CHECK_THROWS_AS(qk_norm_rotary_backward(counted, counted_scratch, out, {}, {}, x, of), Error);
  };
  throws(meta(p.shape), norm, "qk_norm_rotary y");
  throws(x, {meta({63}, p.dtype), gamma, norm.q_rstd, norm.k_rstd, angles}, "qk_norm_rotary gamma");
  throws(x, {gamma, gamma, norm.k_rstd, norm.k_rstd, angles}, "qk_norm_rotary q_rstd");
  throws(x, {gamma, gamma, norm.q_rstd, norm.q_rstd, angles}, "qk_norm_rotary k_rstd");
  throws(x, {gamma, gamma, norm.q_rstd, norm.k_rstd, meta({6, 2, 33})}, "33 pairs do not fit");
  CHECK_THROWS_WITH(qk_norm_rotary_backward(counted, counted_scratch, x, {meta({63})}, {}, x, norm),
                    doctest::Contains("qk_norm_rotary dq_gamma"));
  CHECK_THROWS_WITH(qk_norm_rotary_forward(real, p.x, p.x, p.norm(p.q_rstd, p.k_rstd), kQkEps),
                    doctest::Contains("y is x"));
}
